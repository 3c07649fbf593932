// What an editor of rows and the views may say about a row, by the rules of docs/reference.md, without any code of the
// editions: they share the view's and the trigger's.
#pragma once

#include "session.hpp"

// Which kind of acquisition the row is, in words.
std::string kind_of(const row &);

// Checks how the view of a schema shows the rows. Returns what is wrong, or an empty string.
std::string judge_view(session &, const std::string &schema, const rows &known);

// Checks which rows shedlock_protect protects from SQL of others. Returns what is wrong, or an empty string.
std::string judge_protection(session &, const std::string &schema, const rows &known);
