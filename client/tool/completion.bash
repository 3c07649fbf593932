# bash completion for shedlock(1): its subcommands and options, as --help lists them, and any command after the -- of
# run. It does not complete names: it never asks a database.

_shedlock_listed() # SED-SCRIPT PROGRAM [SUBCOMMAND]
{
    timeout 2 "${2/#\~\//${HOME-}/}" ${3:+"$3"} --help </dev/null 2>/dev/null | sed -nE "$1"
}

# The package bash-completion, where it is loaded, completes the arguments of the command, too.
_shedlock_command() # INDEX
{
    if declare -F _comp_command_offset >/dev/null; then
        _comp_command_offset "$1"
    elif declare -F _command_offset >/dev/null; then
        _command_offset "$1"
    else
        local kind=-c
        [[ $1 -eq $COMP_CWORD ]] || kind=-f
        mapfile -t COMPREPLY < <(compgen $kind -- "${COMP_WORDS[COMP_CWORD]}")
    fi
}

_shedlock() # PROGRAM
{
    local option='s/^ +(-[a-zA-Z], ?)?(--?[a-zA-Z][a-z-]*)( .*|$)/\2/p' subcommand='' words i
    words=$(_shedlock_listed 's/^  ([a-z]+)  .*/\1/p' "$1")
    for ((i = 1; i < COMP_CWORD; i++)); do
        if [[ $subcommand == run && ${COMP_WORDS[i]} == -- ]]; then
            _shedlock_command $((i + 1))
            return
        elif [[ -z $subcommand && $'\n'$words$'\n' == *$'\n'"${COMP_WORDS[i]}"$'\n'* ]]; then
            subcommand=${COMP_WORDS[i]}
        fi
    done
    if [[ ${COMP_WORDS[COMP_CWORD]} == -* ]]; then
        words=$(_shedlock_listed "$option" "$1"; [[ -z $subcommand ]] || _shedlock_listed "$option" "$1" "$subcommand")
    elif [[ -n $subcommand ]]; then
        words=
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}" | sort -u)
}

complete -F _shedlock shedlock
