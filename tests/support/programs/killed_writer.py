"""A file that is written by processes which are killed, one after each line of the writer.

`python killed_writer.py FOLDER HOW`, where HOW is `replaced` or `new`. It prints one line for each
process: the content that it left, and how many other files. The last one is not killed.
"""

import sys
from pathlib import Path

from ordercast import whole_files
from ordercast.whole_files import write_file
from support.harness.kills import killed_after


def main(folder: Path, how: str) -> None:
    path, draft = folder / "file", folder / "file.draft"
    for lines in range(1_000):
        path.unlink(missing_ok=True)
        if how == "replaced":
            path.write_bytes(b"old")

        def write() -> None:
            write_file(path, b"new" * 1_000, draft=draft, new=how == "new", durable=True)

        whole = killed_after(lines, (whole_files.__file__,), write)
        content = path.read_bytes() if path.exists() else b"-"
        told = "new" if content == b"new" * 1_000 else content.decode()
        print(told, sum(other != path for other in folder.iterdir()), flush=True)
        if whole:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
