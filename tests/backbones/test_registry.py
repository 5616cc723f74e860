"""Methods are found by name; a wrong name lists the right ones."""

import pytest

from prvr.backbones import build, methods


def test_every_method_names_itself() -> None:
    assert all(cls.method == name for name, cls in methods().items())


def test_an_unknown_method_or_setting_lists_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"unknown method 'dreamprv'.*dreamprvr"):
        build("dreamprv")
    with pytest.raises(ValueError, match=r"dreamprvr has no setting register; there are: .*registers"):
        build("dreamprvr", register=3)
