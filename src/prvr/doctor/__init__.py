"""What this machine has for ``prvr`` and what is wrong with it: packages, devices, encoders, disks, a library."""

from prvr.doctor.diagnosis import Diagnosis, EncoderHealth, LibraryHealth, examine, find_encoders
from prvr.doctor.encoding import encoding_types
from prvr.doctor.packages import (
    Package,
    UninstalledExtra,
    installed_packages,
    licence_of,
    read_requirements,
    uninstalled_extras,
)

__all__ = [
    "Diagnosis",
    "EncoderHealth",
    "LibraryHealth",
    "Package",
    "UninstalledExtra",
    "encoding_types",
    "examine",
    "find_encoders",
    "installed_packages",
    "licence_of",
    "read_requirements",
    "uninstalled_extras",
]
