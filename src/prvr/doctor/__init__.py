"""What this machine has for ``prvr``, and whether it is in order: packages, devices, encoders, disk, a library."""

from prvr.doctor.diagnosis import Diagnosis, examine
from prvr.doctor.packages import Package, installed_packages, missing_extras

__all__ = ["Diagnosis", "Package", "examine", "installed_packages", "missing_extras"]
