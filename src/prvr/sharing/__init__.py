"""Runs and models for other programs and people: the Hugging Face hub, and query towers as ONNX or ``torch.export``."""

from prvr.sharing.card import evaluations, model_card
from prvr.sharing.hub import SCHEME, HubAddress, load_run, push_run
from prvr.sharing.layout import LAYOUT_FILES, SharedRun, SharingError, is_layout, read_layout, write_layout
from prvr.sharing.query_tower import (
    QueryTower,
    TowerDescription,
    load_query_tower,
    write_onnx,
    write_torch_export,
)

__all__ = [
    "LAYOUT_FILES",
    "SCHEME",
    "HubAddress",
    "QueryTower",
    "SharedRun",
    "SharingError",
    "TowerDescription",
    "evaluations",
    "is_layout",
    "load_query_tower",
    "load_run",
    "model_card",
    "push_run",
    "read_layout",
    "write_layout",
    "write_onnx",
    "write_torch_export",
]
