"""The line of a long complaint of Spark that says what happened."""

import re


def essence(words: str) -> str:
    """The line of a complaint that says what happened, without the name of the exception.

    Of causes the last one tells most; Python's own come last, too.
    """
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    for number, line in enumerate(lines[1:]):
        if lines[number] == "Error from python worker:":
            return line
    start = r"(?P<by>Caused by: |: |Exception in thread \S+ )?"
    named = re.compile(start + r"[\w.$]+(?:Exception|Error): (?P<why>.+)")
    found = [match for line in lines if (match := named.match(line))]
    causes = [match["why"] for match in found if match["by"] == "Caused by: "]
    plain = [line for line in lines if "incubator" not in line and not line.startswith("at ")]
    said = causes[-1:] or [match["why"] for match in found] or plain[1:] or plain
    file = re.search(r"reading file (?:file:/*(?=/))?(\S+?)\.?(?:\s|$)", words)
    return (f"{file[1]}: " if file else "") + (said[0] if said else "it says nothing")
