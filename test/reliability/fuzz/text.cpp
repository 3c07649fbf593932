#include "text.hpp"

#include <array>
#include <cstdio>

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

std::string of_length(random_numbers &random, std::string_view encoding, std::size_t characters)
{
    static constexpr std::string_view utf8[] = {"x", "\xc3\xa9", "\xe6\x97\xa5", "\xf0\x9f\x98\x80"};
    static constexpr std::string_view euc_jp[] = {"x", "\x8e\xb1", "\xa4\xa2", "\x8f\xb0\xa1"};
    static constexpr std::string_view bytes[] = {"x", "\xe9", "\x80", "'"};
    const auto one = encoding == "UTF8"     ? random.any_of(utf8)
                     : encoding == "EUC_JP" ? random.any_of(euc_jp)
                                            : random.any_of(bytes);
    std::string result;
    while (characters-- > 0)
        result += one;
    return result;
}
