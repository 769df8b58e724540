"""Elements of SVG as text. Whatever stands in an attribute or between tags is escaped here."""

from html import escape


def tag(name: str, *children: str, **attributes: object) -> str:
    """An element. `class_` gives the attribute class, and an underscore within a name a dash;
    attributes that are None or empty are left out. Children are elements already."""
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_shown(value))}"'
        for key, value in attributes.items()
        if value is not None and value != ""
    )
    return f"<{name}{told}>{''.join(children)}</{name}>" if children else f"<{name}{told}/>"


def words(text: str, x: float, y: float, **attributes: object) -> str:
    return tag("text", escape(text), x=x, y=y, **attributes)


def title(text: str) -> str:
    """What a pointer over the element around it is told."""
    return tag("title", escape(text))


def drawing(width: float, height: float, *children: str, style: str = "", label: str = "") -> str:
    """A whole picture. With a `style` it can stand alone in a file."""
    sheet = [tag("style", style)] if style else []
    return tag(
        "svg", *([title(label)] if label else []), *sheet, *children,
        xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {_shown(width)} {_shown(height)}",
        width=width, height=height, role="img",
    )  # fmt: skip


def _shown(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
