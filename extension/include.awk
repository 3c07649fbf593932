# awk -f include.awk portable/shedlock.sql extension/shedlock.sql
# Prints extension/shedlock.sql. Each line "-- include NAME" becomes section NAME of portable/shedlock.sql: the lines between
# "-- shared: NAME" and "-- end: NAME", adapted to the extension. All copies of a section must be equal. Sections may be nested.
# Every outermost one must be included, and anything else that looks like a mark is an error.

function fail(what) {
    printf "%s:%d: %s\n", FILENAME, FNR, what >"/dev/stderr"
    failed = 1
    exit 1
}

function begin(name) {
    for (i = 1; i <= depth; i++)
        if (open[i] == name)
            fail("section " name " contains itself")
    open[++depth] = name
    text[depth] = ""
}

function end(name) {
    if (depth == 0 || open[depth] != name)
        fail("section " name " is not open")
    sub(/^\n+/, "", text[depth])
    sub(/\n+$/, "\n", text[depth])
    if (name in section && section[name] != text[depth])
        fail("section " name " differs from the one before")
    section[name] = text[depth--]
    if (depth == 0)
        is_outer[name] = 1
}

# The extension's script gets no @extschema@, because the extension may be moved, and must not replace objects of other roles.
function for_extension(line) {
    gsub("\047@extschema@\047", "(SELECT extnamespace FROM pg_extension WHERE extname = \047shedlock\047)", line)
    gsub("CREATE OR REPLACE", "CREATE", line)
    return line
}

NR == FNR && /^-- shared: [A-Z][a-z]*( -+)?$/ {
    begin($3)
    next
}
NR == FNR && /^-- end: [A-Z][a-z]*$/ {
    end($3)
    next
}
NR == FNR {
    if (tolower($0) ~ /^[ \t]*--[ \t]*(shared|end)[ \t]*:/)
        fail("this is no mark: " $0)
    if ($0 !~ /^ *@here@$/)
        for (i = 1; i <= depth; i++)
            text[i] = text[i] for_extension($0) "\n"
    next
}

tolower($0) ~ /^[ \t]*--[ \t]*include([ \t]|$)/ {
    if (depth > 0)
        fail("section " open[depth] " of the first file has no end")
    name = substr($0, 12)
    if ($0 !~ /^-- include [A-Z][a-z]*$/ || !(name in section))
        fail("there is no such section: " $0)
    included[name] = 1
    printf "%s", section[name]
    next
}
{ print }

END {
    if (failed)
        exit 1
    for (name in is_outer)
        if (!(name in included))
            fail("section " name " is not included")
}
