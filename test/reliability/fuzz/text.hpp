// Hostile text.
#pragma once

#include "random.hpp"

#include <string>
#include <string_view>

std::string printable(std::string_view text); // readable, with \x.. if needed

std::string nasty_text(random_numbers &); // text that has broken other programs; nearly all of it is valid UTF-8
std::string any_bytes(random_numbers &);  // up to 40 bytes of any value
// Repeats one character of the encoding, which is named as in getdatabaseencoding().
std::string of_length(random_numbers &, std::string_view encoding, std::size_t characters);
