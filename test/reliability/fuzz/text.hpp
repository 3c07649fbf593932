// Which bytes a database with some encoding accepts, by the definitions of the encodings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

enum class encoding { utf8, sql_ascii, latin1, euc_jp };

encoding encoding_named(std::string_view name); // as in getdatabaseencoding(); throws for others

bool is_valid(encoding, std::string_view text);                          // no NUL, every character whole
std::size_t count_characters(encoding, std::string_view text);           // of a valid text
std::string_view cut(encoding, std::string_view text, std::size_t most); // to that many characters
std::string printable(std::string_view text);                            // readable, with \x.. if needed

// Gives the same numbers for the same seed with any library.
class random_numbers {
public:
    explicit random_numbers(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next();
    std::int64_t between(std::int64_t low, std::int64_t high); // both included
    bool one_in(std::int64_t n) { return between(1, n) == 1; }
    template <typename List> const auto &any_of(const List &list)
    {
        return list[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(std::size(list)) - 1))];
    }

private:
    std::uint64_t state_;
};

std::string nasty_text(random_numbers &); // text that has broken other programs; nearly all of it is valid UTF-8
std::string any_bytes(random_numbers &);  // up to 40 bytes of any value
std::string of_length(random_numbers &, encoding, std::size_t characters);
