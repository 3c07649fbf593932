# awk -f include.awk [-v edition=extension] shared.sql SOURCE
# Prints SOURCE with every line "-- include NAME" replaced by section NAME of shared.sql, whose sections may include
# others. Each section must be included, and anything else that looks like an include is an error.

function fail(what) {
    printf "%s:%d: %s\n", FILENAME, FNR, what >"/dev/stderr"
    failed = 1
    exit 1
}

function is_include(line) {
    return tolower(line) ~ /^[ \t]*--[ \t]*include([ \t]|$)/
}

function include(line, name, lines, count, i) {
    name = substr(line, 12)
    if (line !~ /^-- include [A-Z][a-z]*$/ || !(name in text))
        fail("there is no such section in shared.sql: " line)
    if (open[name]++)
        fail("section " name " includes itself")
    included[name] = 1
    count = split(text[name], lines, "\n")
    for (i = 1; i < count; i++)
        if (is_include(lines[i]))
            include(lines[i])
        else
            print lines[i]
    open[name]--
}

# The sections of shared.sql.
NR == FNR && /^-- [A-Z][a-z]* -+$/ {
    section = $2
    if (section in text)
        fail("section " section " is there already")
    text[section] = ""
}
NR == FNR {
    if (edition == "extension") {
        # The script of an extension that may be moved gets no @extschema@, and must not replace objects of other roles.
        gsub("\047@extschema@\047", "(SELECT extnamespace FROM pg_extension WHERE extname = \047shedlock\047)")
        gsub("CREATE OR REPLACE", "CREATE")
        if ($0 ~ /^ *@here@$/)
            next
    }
    if (section == "" && $0 !~ /^(--.*)?$/)
        fail("this is in no section")
    # Blank lines between sections belong to none.
    if ($0 == "")
        blank = blank "\n"
    else {
        text[section] = text[section] (text[section] == "" ? "" : blank) $0 "\n"
        blank = ""
    }
    next
}

is_include($0) {
    include($0)
    next
}
{ print }

END {
    if (failed)
        exit 1
    for (section in text)
        if (section != "" && !(section in included))
            fail("section " section " of shared.sql is not included")
}
