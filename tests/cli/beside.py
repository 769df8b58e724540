"""Verbs run in this process, beside a cluster of the test's own loop."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ordercast.cli import main


@dataclass(frozen=True)
class Verbs:
    """They look for sockets and stores in the folder."""

    folder: Path
    capsys: pytest.CaptureFixture[str]

    async def run(self, code: int, *words: str) -> str:
        """All that a verb prints; it must end with the code."""
        command = [*words, "--dir", str(self.folder)]
        assert await asyncio.to_thread(main, command) == code
        out, err = self.capsys.readouterr()
        return out + err

    async def told(self, *words: str) -> Any:
        """What a verb tells as JSON."""
        return json.loads(await self.run(0, *words, "--json"))
