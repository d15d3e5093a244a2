from __future__ import annotations

import pytest

from levywalk.errors import InvalidParameter
from levywalk.inside import inside


def test_names_that_leave_the_folder_are_refused(tmp_path):
    folder = tmp_path / "results"
    folder.mkdir()
    (tmp_path / "secret").write_text("x")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "near").symlink_to(folder / "a")
    (folder / "loop").symlink_to(folder / "loop")
    for name in ("/etc/passwd", "../secret", "a/../../secret", "link", "a\0b", str(folder / "a")):
        with pytest.raises(InvalidParameter, match=r"outside of the folder.*--own-files"):
            inside(folder, name)
    for name in ("a", "b/c.txt", "near"):
        assert inside(folder, name) == folder / name
