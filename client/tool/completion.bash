# bash completion for shedlock(1). Needs nothing else, but makes use of the package bash-completion where that is loaded.

# Puts the words of the line up to the cursor into the array words, as the user wrote them; bash itself also splits at : = @.
# command_at becomes the index in COMP_WORDS of the first word after the mark --, or empty.
_shedlock_words()
{
    local i word joins=
    words=() command_at=
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]-}
        [[ $word == -- && -z $command_at && $i -lt $COMP_CWORD ]] && command_at=$((i + 1))
        if [[ -n $word && ${#words[@]} -gt 0 && (-n $joins || $word =~ ^[:=@]+$) ]]; then
            words[${#words[@]} - 1]+=$word
        else
            words+=("$word")
        fi
        [[ $word =~ ^[:=@]+$ ]] && joins=1 || joins=
    done
}

# Sets plain to the word without its quotes. Fails if only the shell could tell what the word means; nothing is executed here.
_shedlock_unquote()
{
    local quoted=$1 letter quote=
    plain=
    [[ $quoted == *[\$\`]* ]] && return 1
    while [[ -n $quoted ]]; do
        letter=${quoted:0:1} quoted=${quoted:1}
        if [[ $letter == "$quote" ]]; then
            quote=
        elif [[ -z $quote && $letter == [\'\"] ]]; then
            quote=$letter
        elif [[ $letter == \\ && $quote != \' ]]; then
            plain+=${quoted:0:1} quoted=${quoted:1}
        else
            plain+=$letter
        fi
    done
}

# The names of the locks in these states (a pattern), one per line. Names with control characters, which cannot be typed, and names
# that look like options are left out. Asks the database that the command line names, for two seconds at most.
_shedlock_names()
{
    local line name='' plain arguments=(list --json) is_name='^ *"name": "(.*)",$' is_state='^ *"state": "(.*)",$'
    if [[ -n $dsn ]]; then
        _shedlock_unquote "$dsn" || return
        arguments+=(--dsn "$plain")
    fi
    while IFS= read -r line; do
        if [[ $line =~ $is_name ]]; then
            name=${BASH_REMATCH[1]//\\\\/$'\001'}
            name=${name//\\\"/\"}
            [[ $name == *\\* || $name == -* ]] && name= # \n, \u001b and the like
            name=${name//$'\001'/\\}
        elif [[ -n $name && $line =~ $is_state ]]; then
            # shellcheck disable=SC2053 # a pattern, yes
            [[ ${BASH_REMATCH[1]} == $1 ]] && printf '%s\n' "$name"
        fi
    done < <(timeout -k 1 2 "${program/#\~\//${HOME-}/}" "${arguments[@]}" </dev/null 2>/dev/null)
}

# Reads the help of the subcommand, or of the program: the options, each with the kind of its value (TIME, TEXT) or nothing,
# into the array takes, in order into options; the subcommands into subcommands.
_shedlock_read_help()
{
    local line is_option='^ +(-[a-zA-Z],)?(--?[a-zA-Z][a-z-]*)( ([A-Z]+))?( |$)' is_subcommand='^  ([a-z]+)  '
    options='' subcommands=''
    while IFS= read -r line; do
        if [[ $line =~ $is_option ]]; then
            options+=" ${BASH_REMATCH[2]}"
            takes[${BASH_REMATCH[2]}]=${BASH_REMATCH[4]}
        elif [[ $line =~ $is_subcommand ]]; then
            subcommands+=" ${BASH_REMATCH[1]}"
        fi
    done < <(timeout -k 1 2 "${program/#\~\//${HOME-}/}" "$@" --help </dev/null 2>/dev/null)
}

# Those of the words that begin like the one under the cursor.
_shedlock_offer()
{
    local word
    for word; do
        [[ $word == "$current"* ]] && COMPREPLY+=("$word")
    done
}

_shedlock_offer_names()
{
    local name plain quote=${current:0:1}
    if [[ $quote == [\'\"] ]]; then # bash puts what we give between the quotes
        plain=${current:1}
    else
        quote=
        _shedlock_unquote "$current" || return
    fi
    while IFS= read -r name; do
        [[ $name == "$plain"* && $taken != *$'\n'"$name"$'\n'* ]] || continue
        case $quote in
        \') [[ $name == *\'* ]] || COMPREPLY+=("$name") ;;
        \") [[ $name == *[\"\$\`\\!]* ]] || COMPREPLY+=("$name") ;;
        *) COMPREPLY+=("$(printf %q "$name")") ;;
        esac
    done < <(_shedlock_names "$1")
}

_shedlock_offer_durations() # OPTION
{
    if [[ $current =~ ^[0-9]+$ ]]; then
        COMPREPLY+=("$current"{ms,s,m,h,d})
        [[ $1 != --every ]] || COMPREPLY+=("$current"{w,mon})
    else
        _shedlock_offer 30s 1m 10m 1h 1d
    fi
}

# After the -- of run: any command with its arguments.
_shedlock_offer_command()
{
    if declare -F _comp_command_offset >/dev/null; then
        _comp_command_offset "$command_at"
    elif declare -F _command_offset >/dev/null; then
        _command_offset "$command_at"
    else
        local kind=-c word=${COMP_WORDS[COMP_CWORD]}
        [[ $command_at -lt $COMP_CWORD || $word == */* ]] && kind=-f
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen "$kind" -- "$word")
    fi
}

_shedlock()
{
    local words command_at current option='' subcommand='' name='' several='' taken=$'\n' plain states='*' dsn='' given=' ' i
    local program options subcommands common
    local -A takes=()
    local IFS=$' \t\n'
    COMPREPLY=()
    _shedlock_words
    _shedlock_unquote "${words[0]}" || return
    program=$plain
    _shedlock_read_help
    common=$options

    # What is before the cursor: a subcommand, its lock, options. If an option still needs its value, it is in option.
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        if [[ -n $option ]]; then
            [[ $option == --dsn ]] && dsn=${words[i]}
            option=
        elif [[ ${words[i]} == -- ]]; then
            [[ $subcommand == run ]] && break
        elif [[ ${words[i]} == -?* ]]; then
            option=${words[i]%%=*}
            given+="$option "
            [[ ${words[i]} == --dsn=* ]] && dsn=${words[i]#*=}
            [[ ${words[i]} != *=* && -n ${takes[$option]-} ]] || option=
        elif [[ -z $subcommand ]]; then
            subcommand=${words[i]}
            [[ " $subcommands " == *" $subcommand "* ]] || return
            _shedlock_read_help "$subcommand"
            options="${common/ --version/} ${options/ --help/}"
        else
            name=${words[i]}
            _shedlock_unquote "$name" && taken+=$plain$'\n'
        fi
    done
    current=${words[${#words[@]} - 1]}
    if [[ $subcommand == run && -n $command_at ]]; then
        _shedlock_offer_command
        return
    fi

    case $subcommand in
    run | acquire | check | history | list) several=yes ;;
    extend) states=held several=yes ;;
    release)
        [[ $given == *' --token '* ]] || options=${options/ --failed/} options=${options/ --detail/}
        [[ $given == *' --token '* ]] && options=${options/ --force/}
        [[ $given == *' --force '* ]] && options=${options/ --token/} || several=yes
        states='[!f]*' # all but free
        ;;
    pause) states='[!p]*' ;; # all but paused
    resume) states=paused ;;
    forget) states=free ;;
    *) name=none ;;
    esac

    local prefix=
    if [[ -z $option && $current == --*=* ]]; then
        option=${current%%=*} prefix=${current%%=*}= current=${current#*=}
    fi
    case $option in
    ?*) # otherwise a text or a number that only the user knows
        [[ ${takes[$option]-} != TIME ]] || _shedlock_offer_durations "$option" ;;
    *)
        if [[ $current != -* ]]; then
            # shellcheck disable=SC2086 # words
            [[ -n $subcommand ]] || _shedlock_offer $subcommands
            [[ -n $name && -z $several ]] || _shedlock_offer_names "$states"
        fi
        if [[ $current == -* || -z $current && -n $subcommand && (-n $name || ${#COMPREPLY[@]} -eq 0) ]]; then
            [[ $subcommand == run && -n $name ]] && options+=' --'
            for i in $options; do
                [[ $given == *" $i "* ]] || _shedlock_offer "$i"
            done
        fi
        ;;
    esac

    # Bash replaces only what follows the last of these letters.
    local letter breaks='' kept=''
    for letter in : = @; do
        [[ ${COMP_WORDBREAKS-} == *"$letter"* ]] && breaks+=$letter
    done
    current=$prefix$current
    [[ -n $breaks && $current =~ ^([^\"\'].*)?["$breaks"] ]] && kept=${BASH_REMATCH[0]}
    for i in "${!COMPREPLY[@]}"; do
        COMPREPLY[i]=$prefix${COMPREPLY[i]}
        COMPREPLY[i]=${COMPREPLY[i]#"$kept"}
    done
}

complete -F _shedlock shedlock
