"""`ordercast completion SHELL`: verbs and options for the shell's own completion."""

import argparse
from collections.abc import Mapping

from ordercast.cli.command import GOOD, one_of, print_json
from ordercast.cli.grammar import VerbGrammar, grammar

DESCRIPTION = """\
Print a script that completes the verbs, actions and options of this version in bash,
zsh or fish. Other words are completed as names of files."""

EXAMPLE = """\
example:
  ordercast completion bash > ~/.local/share/bash-completion/completions/ordercast
  ordercast completion zsh > "${fpath[1]}/_ordercast"
  ordercast completion fish > ~/.config/fish/completions/ordercast.fish"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shell", metavar="SHELL", type=one_of("bash", "zsh", "fish"), help="bash, zsh or fish"
    )


def run(args: argparse.Namespace) -> int:
    script = SCRIPTS[args.shell](grammar())
    if args.json:
        print_json({"shell": args.shell, "script": script})
    else:
        print(script, end="")
    return GOOD


def bash(verbs: Mapping[str, VerbGrammar]) -> str:
    cases = "\n".join(
        f"        {name}) words='{' '.join(_words(verb))}' ;;" for name, verb in verbs.items()
    )
    return f"""\
# bash completion of ordercast; made by 'ordercast completion bash'
_ordercast() {{
    local now="${{COMP_WORDS[COMP_CWORD]}}" words=''
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W '{" ".join(_first(verbs))}' -- "$now"))
        return
    fi
    case "${{COMP_WORDS[1]}}" in
{cases}
        help) words='{" ".join(verbs)}' ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$now"))
}}
complete -o bashdefault -o default -F _ordercast ordercast
"""


def zsh(verbs: Mapping[str, VerbGrammar]) -> str:
    described = "\n".join(f"    {_quoted(f'{n}:{v.summary}')}" for n, v in verbs.items())
    cases = "\n".join(
        f"    {name}) _arguments {' '.join(_zsh_arguments(verb))} ;;"
        for name, verb in verbs.items()
    )
    return f"""\
#compdef ordercast
# zsh completion of ordercast; made by 'ordercast completion zsh'
_ordercast() {{
  local -a verbs
  verbs=(
{described}
  )
  if (( CURRENT == 2 )); then
    _describe verb verbs
    return
  fi
  local verb=$words[2]
  shift words
  (( CURRENT-- ))
  case $verb in
{cases}
  esac
}}
_ordercast "$@"
"""


def fish(verbs: Mapping[str, VerbGrammar]) -> str:
    lines = ["# fish completion of ordercast; made by 'ordercast completion fish'"]
    first = "__fish_use_subcommand"
    for name, verb in verbs.items():
        lines.append(f"complete -c ordercast -n {first} -f -a {name} -d {_quoted(verb.summary)}")
    for name, verb in verbs.items():
        there = f"-n '__fish_seen_subcommand_from {name}'"
        seen = f"__fish_seen_subcommand_from {' '.join(verb.actions)}"
        before = f"-n '__fish_seen_subcommand_from {name}; and not {seen}' -f"
        lines += [f"complete -c ordercast {before} -a {action}" for action in verb.actions]
        for option, told, value in verb.options:
            flag = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            needs = " -r" if value else ""
            lines.append(f"complete -c ordercast {there} {flag}{needs} -d {_quoted(told)}")
    return "\n".join(lines) + "\n"


SCRIPTS = {"bash": bash, "zsh": zsh, "fish": fish}


def _first(verbs: Mapping[str, VerbGrammar]) -> list[str]:
    return [*verbs, "help", "version", "--help", "--version"]


def _words(verb: VerbGrammar) -> list[str]:
    return [*verb.actions, *(option for option, _, _ in verb.options)]


def _zsh_arguments(verb: VerbGrammar) -> list[str]:
    found = []
    for option, told, value in verb.options:
        safe = told.replace("[", "(").replace("]", ")").replace(":", ";")
        found.append(_quoted(f"{option}[{safe}]" + (f":{value}:_files" if value else "")))
    if verb.actions:
        found.append(_quoted(f"1:action:({' '.join(verb.actions)})"))
    return [*found, _quoted("*:file:_files")]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
