#include "text.hpp"

#include <array>
#include <stdexcept>

namespace {

bool is_in(std::string_view text, std::size_t i, unsigned low, unsigned high)
{
    if (i >= text.size())
        return false;
    const auto byte = static_cast<unsigned char>(text[i]);
    return byte >= low && byte <= high;
}

// The length of the first UTF-8 character, by RFC 3629 and table 3-7 of Unicode; 0 if it is invalid.
std::size_t utf8_size(std::string_view text)
{
    const auto first = static_cast<unsigned char>(text[0]);
    const auto tail = [&](std::size_t i) { return is_in(text, i, 0x80, 0xbf); };
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first <= 0xdf)
        return tail(1) ? 2 : 0;
    if (first >= 0xe0 && first <= 0xef) {
        const unsigned low = first == 0xe0 ? 0xa0 : 0x80, high = first == 0xed ? 0x9f : 0xbf;
        return is_in(text, 1, low, high) && tail(2) ? 3 : 0;
    }
    if (first >= 0xf0 && first <= 0xf4) {
        const unsigned low = first == 0xf0 ? 0x90 : 0x80, high = first == 0xf4 ? 0x8f : 0xbf;
        return is_in(text, 1, low, high) && tail(2) && tail(3) ? 4 : 0;
    }
    return 0;
}

std::size_t euc_jp_size(std::string_view text)
{
    const auto first = static_cast<unsigned char>(text[0]);
    if (first < 0x80)
        return 1;
    if (first == 0x8e)
        return is_in(text, 1, 0xa1, 0xdf) ? 2 : 0;
    if (first == 0x8f)
        return is_in(text, 1, 0xa1, 0xfe) && is_in(text, 2, 0xa1, 0xfe) ? 3 : 0;
    return is_in(text, 0, 0xa1, 0xfe) && is_in(text, 1, 0xa1, 0xfe) ? 2 : 0;
}

// The length of the first character; 0 if it is invalid.
std::size_t character_size(encoding e, std::string_view text)
{
    if (text[0] == 0)
        return 0;
    switch (e) {
    case encoding::utf8:
        return utf8_size(text);
    case encoding::euc_jp:
        return euc_jp_size(text);
    default:
        return 1;
    }
}

} // namespace

encoding encoding_named(std::string_view name)
{
    if (name == "UTF8")
        return encoding::utf8;
    if (name == "SQL_ASCII")
        return encoding::sql_ascii;
    if (name == "LATIN1")
        return encoding::latin1;
    if (name == "EUC_JP")
        return encoding::euc_jp;
    throw std::runtime_error("no rules for encoding " + std::string{name});
}

bool is_valid(encoding e, std::string_view text)
{
    while (!text.empty()) {
        const auto size = character_size(e, text);
        if (size == 0)
            return false;
        text.remove_prefix(size);
    }
    return true;
}

std::size_t count_characters(encoding e, std::string_view text)
{
    std::size_t count = 0;
    for (; !text.empty(); count++)
        text.remove_prefix(character_size(e, text));
    return count;
}

std::string_view cut(encoding e, std::string_view text, std::size_t most)
{
    std::size_t size = 0;
    for (; size < text.size() && most > 0; most--)
        size += character_size(e, text.substr(size));
    return text.substr(0, size);
}

std::string printable(std::string_view text)
{
    std::string result;
    for (const unsigned char byte : text.substr(0, 300)) {
        std::array<char, 8> escaped{};
        const bool plain = byte >= ' ' && byte < 0x7f && byte != '\\';
        std::snprintf(escaped.data(), escaped.size(), plain ? "%c" : "\\x%02x", byte);
        result += escaped.data();
    }
    return text.size() > 300 ? result + "… (" + std::to_string(text.size()) + " bytes)" : result;
}

// splitmix64
std::uint64_t random_numbers::next()
{
    auto z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

std::int64_t random_numbers::between(std::int64_t low, std::int64_t high)
{
    const auto size = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) + 1;
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + (size == 0 ? next() : next() % size));
}

std::string nasty_text(random_numbers &random)
{
    static constexpr std::string_view list[] = {"nightly",
                                                "'; DROP TABLE shedlock; --",
                                                "\"; DROP EXTENSION shedlock; --",
                                                "' OR true --",
                                                "$1",
                                                "$$",
                                                "E'\\0'",
                                                "%s%s%n%d%*d",
                                                "%1$I %L",
                                                "\\",
                                                "\\\\'\\",
                                                "a\\nb",
                                                "a\nb",
                                                "a\r\nb",
                                                "a\tb",
                                                "a\x01\x1f\x7f"
                                                "b",
                                                "a b",
                                                "a  b",
                                                "NULL",
                                                "null",
                                                "{a,b}",
                                                "{\"a\":1}",
                                                "[\"]",
                                                "\"",
                                                "\\u0000",
                                                "<script>alert(1)</script>",
                                                "&amp;",
                                                "`id`",
                                                "$(id)",
                                                "../../etc/passwd",
                                                "a/12.34",
                                                "a#5",
                                                "/1.2",
                                                "#1700000000000000",
                                                "/",
                                                "#",
                                                "0",
                                                "-1",
                                                "--",
                                                "/*",
                                                "*/",
                                                "\xc3\xa9",
                                                "e\xcc\x81",
                                                "\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d \xe2\x80\xae evil",
                                                "\xf0\x9f\x98\x80",
                                                "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb",
                                                "\xc2\xa0",
                                                "\xe3\x80\x80",
                                                "\xe2\x80\x8b",
                                                "\xef\xbb\xbf"
                                                "bom",
                                                "\xe2\x80\xa8",
                                                "\xef\xbf\xbf",
                                                "\xf4\x8f\xbf\xbf",
                                                "\xc2\x85",
                                                "I",
                                                "\xc4\xb0",
                                                "\xc4\xb1",
                                                "i",
                                                "\xc3\x9f",
                                                "ss",
                                                "SS",
                                                "NIGHTLY",
                                                "nightl\xc3\xbd",
                                                "\xe6\x97\xa5\xe6\x9c\xac",
                                                "\xa4\xa2\xa4\xa4",
                                                "\x8e\xb1",
                                                "\xe9"};
    return std::string{random.any_of(list)};
}

std::string any_bytes(random_numbers &random)
{
    std::string result(static_cast<std::size_t>(random.between(0, 40)), '\0');
    const bool is_text = random.one_in(2); // otherwise most of them would be invalid in UTF8
    for (auto &byte : result)
        byte = static_cast<char>(is_text ? random.between(1, 127) : random.between(0, 255));
    return result;
}

std::string of_length(random_numbers &random, encoding e, std::size_t characters)
{
    static constexpr std::string_view utf8[] = {"x", "\xc3\xa9", "\xe6\x97\xa5", "\xf0\x9f\x98\x80"};
    static constexpr std::string_view euc_jp[] = {"x", "\x8e\xb1", "\xa4\xa2", "\x8f\xb0\xa1"};
    static constexpr std::string_view bytes[] = {"x", "\xe9", "\x80", "'"};
    const auto one = e == encoding::utf8     ? random.any_of(utf8)
                     : e == encoding::euc_jp ? random.any_of(euc_jp)
                                             : random.any_of(bytes);
    std::string result;
    while (characters-- > 0)
        result += one;
    return result;
}
