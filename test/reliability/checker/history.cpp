#include "history.hpp"

#include <algorithm>
#include <array>
#include <istream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <unordered_map>

namespace history {

namespace {

constexpr std::array actions{"start",  "commit",  "rollback", "prepare", "savepoint", "keep",
                             "undo",   "acquire", "extend",   "release", "guard",     "look",
                             "revoke", "force",   "run",      "gone",    "effects",   "complete"};
constexpr std::array makers{"session", "token", "java", "library"};
constexpr std::array results{"none", "yes", "no", "error", "lost"};
constexpr std::array endings{"done", "failed", "ran out", "freed"};
constexpr std::array levels{"committed", "repeatable", "serializable"};

template <typename Kind, typename Names> Kind kind_of(const std::string &text, const Names &names)
{
    for (std::size_t i = 0; i < names.size(); ++i)
        if (text == names[i])
            return static_cast<Kind>(i);
    throw std::runtime_error{"unknown: " + text};
}

std::vector<std::string> split(const std::string &text, char separator)
{
    std::vector<std::string> parts;
    std::istringstream in{text};
    for (std::string part; std::getline(in, part, separator);)
        parts.push_back(part);
    return parts;
}

std::string joined(const std::vector<std::string> &parts)
{
    std::string text;
    for (const auto &part : parts)
        text += (text.empty() ? "" : ",") + part;
    return text;
}

class line_writer {
public:
    explicit line_writer(std::string begin) : text_{std::move(begin)} {}
    line_writer &add(const char *key, const std::string &value)
    {
        text_ += std::string{" "} + key + '=' + value;
        return *this;
    }
    line_writer &add(const char *key, const char *value) { return add(key, std::string{value}); }
    line_writer &add(const char *key, std::optional<microseconds> value)
    {
        return value ? add(key, std::to_string(*value)) : *this;
    }
    line_writer &add(moment when) { return add("at", when.at).add("wall", when.wall); }
    [[nodiscard]] std::string text() const { return text_; }

private:
    std::string text_;
};

using values = std::map<std::string, std::string>;

values read_values(std::istringstream &in)
{
    values found;
    for (std::string part; in >> part;) {
        const auto equals = part.find('=');
        if (equals == part.npos)
            throw std::runtime_error{"no value: " + part};
        found[part.substr(0, equals)] = part.substr(equals + 1);
    }
    return found;
}

std::optional<microseconds> number(const values &all, const char *key)
{
    const auto found = all.find(key);
    return found == all.end() ? std::nullopt : std::optional{std::stoll(found->second)};
}

std::string word(const values &all, const char *key)
{
    const auto found = all.find(key);
    return found == all.end() ? "" : found->second;
}

moment when(const values &all)
{
    return {number(all, "at").value(), number(all, "wall").value()};
}

operation read_call(int number_of, const values &all)
{
    operation call;
    call.number = number_of;
    call.client = static_cast<int>(number(all, "client").value());
    call.tx = static_cast<int>(number(all, "tx").value_or(0));
    call.what = kind_of<action>(word(all, "do"), actions);
    if (all.contains("by"))
        call.by = kind_of<maker>(word(all, "by"), makers);
    call.names = split(word(all, "names"), ',');
    call.at_most = number(all, "at_most").value_or(0);
    call.at_least = number(all, "at_least");
    call.wait = number(all, "wait").value_or(0);
    call.tick = number(all, "tick");
    call.start_within = number(all, "start_within");
    call.retry = all.contains("retry");
    call.keep_alive = all.contains("keep_alive");
    if (word(all, "done") == "no")
        call.as = outcome::failed;
    call.of = static_cast<int>(number(all, "of").value_or(0));
    if (all.contains("level"))
        call.level = kind_of<level>(word(all, "level"), levels);
    call.called = when(all);
    return call;
}

std::vector<row> read_rows(const std::string &text)
{
    std::vector<row> rows;
    for (const auto &part : split(text, ',')) {
        const auto fields = split(part, ':');
        rows.push_back({fields.at(0), std::stoll(fields.at(1)), std::stoll(fields.at(2))});
    }
    return rows;
}

void read_done(operation &call, const values &all)
{
    call.result = kind_of<result>(word(all, "result"), results);
    call.state = word(all, "state");
    call.token = number(all, "token");
    call.before = number(all, "before");
    call.after = number(all, "after");
    call.until = number(all, "until");
    call.trust = number(all, "trust");
    call.begun = number(all, "begun");
    call.ended = number(all, "ended");
    call.is_kept = word(all, "kept") == "yes";
    if (all.contains("ledger"))
        call.ledger = static_cast<int>(*number(all, "ledger"));
    call.rows = read_rows(word(all, "rows"));
    if (all.contains("endings"))
        call.endings = read_rows(word(all, "endings"));
    call.done = when(all);
}

void read_head(record &made, const values &all)
{
    made.allowed = split(word(all, "allow"), ',');
    made.standby_missing = word(all, "standby") == "missing";
    made.has_crashes = word(all, "crashes") == "yes";
    made.is_portable = word(all, "edition") == "portable";
}

std::string rows_text(const std::vector<row> &rows)
{
    std::vector<std::string> all;
    for (const auto &one : rows)
        all.push_back(one.name + ':' + std::to_string(one.token) + ':' + std::to_string(one.until));
    return joined(all);
}

} // namespace

const char *to_text(action what)
{
    return actions.at(static_cast<std::size_t>(what));
}

const char *to_text(result what)
{
    return results.at(static_cast<std::size_t>(what));
}

const char *to_text(ending how)
{
    return endings.at(static_cast<std::size_t>(how) - 1);
}

std::string head_line(const record &made, const std::string &seed, int clients)
{
    line_writer line{"history"};
    line.add("seed", seed).add("clients", clients).add("allow", joined(made.allowed));
    line.add("standby", made.standby_missing ? "missing" : "yes").add("crashes", made.has_crashes ? "yes" : "no");
    if (made.is_portable)
        line.add("edition", "portable");
    return line.text();
}

std::string call_line(const operation &call)
{
    line_writer line{"call " + std::to_string(call.number)};
    line.add("client", call.client).add("tx", call.tx).add("do", to_text(call.what));
    line.add("by", makers.at(static_cast<std::size_t>(call.by)));
    if (!call.names.empty())
        line.add("names", joined(call.names));
    if (call.at_most)
        line.add("at_most", call.at_most);
    line.add("at_least", call.at_least);
    if (call.wait)
        line.add("wait", call.wait);
    line.add("tick", call.tick);
    line.add("start_within", call.start_within);
    if (call.retry)
        line.add("retry", "yes");
    if (call.keep_alive)
        line.add("keep_alive", std::string{"yes"});
    if (call.of)
        line.add("of", call.of);
    if (call.level != level::committed)
        line.add("level", levels.at(static_cast<std::size_t>(call.level)));
    if (call.as == outcome::failed)
        line.add("done", "no");
    return line.add(call.called).text();
}

std::string done_line(const operation &call)
{
    line_writer line{"done " + std::to_string(call.number)};
    line.add("result", std::string{to_text(call.result)});
    if (!call.state.empty())
        line.add("state", call.state);
    line.add("token", call.token).add("before", call.before).add("after", call.after).add("until", call.until);
    line.add("trust", call.trust).add("ledger", call.ledger).add("begun", call.begun).add("ended", call.ended);
    if (call.is_kept)
        line.add("kept", std::string{"yes"});
    if (!call.rows.empty())
        line.add("rows", rows_text(call.rows));
    if (call.endings)
        line.add("endings", rows_text(*call.endings));
    return line.add(call.done).text();
}

// A client that is killed while it writes may leave a line without its end, and the next line is appended to it. The
// operation had not been sent yet, or nobody learnt its result.
std::string without_torn_line(const std::string &line)
{
    std::size_t begin = 0;
    for (const auto *const kind : {"call ", "done "})
        if (const auto at = line.rfind(kind); at != std::string::npos)
            begin = std::max(begin, at);
    return line.substr(begin);
}

record read(std::istream &in)
{
    record made;
    std::unordered_map<int, std::size_t> index_of;
    for (std::string written; std::getline(in, written);) {
        if (written.empty() || written[0] == '#')
            continue;
        const auto line = without_torn_line(written);
        std::istringstream words{line};
        std::string kind;
        int number_of = 0;
        words >> kind;
        try {
            if (kind != "history")
                words >> number_of;
            const auto all = read_values(words);
            if (kind == "history") {
                read_head(made, all);
            } else if (kind == "call") {
                index_of[number_of] = made.operations.size();
                made.operations.push_back(read_call(number_of, all));
                made.operations.back().call_line = line;
            } else if (kind == "done") {
                auto &call = made.operations.at(index_of.at(number_of));
                read_done(call, all);
                if (call.by == maker::library && call.done.at - call.called.at >= 2'000'000)
                    made.has_timeouts = true;
                call.done_line = line;
            } else {
                throw std::runtime_error{"unknown: " + kind};
            }
        } catch (const std::exception &failure) {
            throw std::runtime_error{std::string{failure.what()} + " in: " + line};
        }
    }
    return made;
}

} // namespace history
