# awk -f include.awk [-v edition=extension] shared.sql SOURCE
# Prints SOURCE with every line "-- include NAME" replaced by section NAME of shared.sql. Each section must be included
# exactly once, and anything else that looks like an include is an error.

function fail(what) {
    printf "%s:%d: %s\n", FILENAME, FNR, what >"/dev/stderr"
    failed = 1
    exit 1
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

tolower($0) ~ /^[ \t]*--[ \t]*include([ \t]|$)/ {
    if ($0 !~ /^-- include [A-Z][a-z]*$/ || !($3 in text))
        fail("there is no such section in shared.sql: " $0)
    if (included[$3]++)
        fail("section " $3 " is included twice")
    printf "%s", text[$3]
    next
}
{ print }

END {
    if (failed)
        exit 1
    for (section in text)
        if (section != "" && !included[section])
            fail("section " section " of shared.sql is not included")
}
