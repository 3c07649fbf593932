# awk -f include.awk portable/shedlock.sql extension/shedlock.sql
# Prints extension/shedlock.sql. Each line "-- include NAME" becomes section NAME of portable/shedlock.sql: the lines between
# "-- shared: NAME" and "-- end: NAME", adapted to the extension. All copies of a section must be equal. Sections may be nested.
# Every outermost one must be included, and anything else that looks like a mark is an error.
#
# Each line "-- declare FUNCTION" becomes a function in C with the arguments and the result that it has in
# portable/shedlock.sql. "and SYMBOL" adds its twin for several names, and what follows a colon replaces VOLATILE PARALLEL
# UNSAFE.

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
    else
        included[name] = 1 # if the one around it is
}

# The extension's script gets no @extschema@, because the extension may be moved, and must not replace objects of other roles.
function for_extension(line) {
    gsub("\047@extschema@\047", "(SELECT extnamespace FROM pg_extension WHERE extname = \047shedlock\047)", line)
    gsub("CREATE OR REPLACE", "CREATE", line)
    return line
}

function declare(name, symbol, attributes) {
    if (!(name in declaration))
        fail("there is no such function: " name)
    if (declaration[name] ~ /^CREATE PROCEDURE/)
        attributes = ""
    gsub(/^ *| *$/, " ", attributes)
    printf "%s    LANGUAGE c%sAS \047MODULE_PATHNAME\047;\n", declaration[name], attributes
    if (symbol == "")
        return
    if (!sub(/\([ \n]*name text/, "&[]", declaration[name]))
        fail("the first argument of " name " is not a name")
    printf "\n%s    LANGUAGE c%sAS \047MODULE_PATHNAME\047, \047%s\047;\n", declaration[name], attributes, symbol
}

tolower($0) ~ /(zone |timezone\()\047utc\047/ {
    fail("a session can give UTC another meaning: write interval \0470\047")
}

NR == FNR && /^CREATE OR REPLACE (FUNCTION|PROCEDURE) shedlock_[a-z]/ {
    declared = $5
    sub(/\(.*/, "", declared)
    declaration[declared] = ""
}
NR == FNR && declared != "" {
    if ($0 ~ /^ +LANGUAGE /)
        declared = ""
    else
        declaration[declared] = declaration[declared] for_extension($0) "\n"
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
tolower($0) ~ /^[ \t]*--[ \t]*declare([ \t]|$)/ {
    if ($0 !~ /^-- declare shedlock_[a-z_]+( and shedlock_[a-z_]+)?(: [A-Z].*)?$/)
        fail("this is no declaration: " $0)
    attributes = "VOLATILE PARALLEL UNSAFE"
    if ((colon = index($0, ": ")) > 0)
        attributes = substr($0, colon + 2)
    sub(/:.*/, "", $0)
    declare($3, $5, attributes)
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
