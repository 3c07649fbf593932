// fuzz DATABASE SEED CALLS: makes CALLS random calls of the public functions, from three sessions, and checks each
// answer and the rows against the oracle. At the first violation it prints the call and exits with 1. If there is none,
// it prints counts.
#include "rules.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>

namespace {

class fuzzer {
public:
    fuzzer(const std::string &database, std::uint64_t seed);
    void run(std::int64_t calls);

private:
    void connect(std::size_t i);
    knowledge knowledge_now() const;
    void make_call();
    void edit();
    std::string imitation(const row &);
    void insert();
    void note_edit(session &, const std::string &name, const std::string &what);
    void look_at_all();
    void require(const std::string &wrong, const std::string &after) const;
    void count(const call &, const outcome &);

    std::string database_;
    random_numbers random_;
    std::vector<std::unique_ptr<session>> sessions_;
    circumstances about_;
    std::vector<std::string> names_;
    std::size_t longest_name_ = 0; // that fits into the table's column
    std::unique_ptr<oracle> oracle_;
    std::string last_call_;
    moment now_ = 0;
    std::map<std::string, std::int64_t> counts_;
};

fuzzer::fuzzer(const std::string &database, std::uint64_t seed) : database_(database), random_(seed), sessions_(3)
{
    for (std::size_t i = 0; i < sessions_.size(); i++)
        connect(i);
    const auto facts =
        sessions_[0]->query("SELECT getdatabaseencoding(), current_setting('server_version_num'), session_user,"
                            " (SELECT CASE WHEN atttypmod > 0 THEN atttypmod - 4 ELSE 255 END FROM pg_attribute"
                            " WHERE attrelid = 'shedlock'::regclass AND attname = 'name'), 'fuzz@' || "
                            "coalesce(host(inet_client_addr()), '[local]'),"
                            " (SELECT CASE WHEN atttypmod > 0 THEN atttypmod - 4 ELSE 1000 END FROM pg_attribute"
                            " WHERE attrelid = 'shedlock'::regclass AND attname = 'name')")[0];
    const auto edition = sessions_[0]->query("SELECT edition = 'portable' FROM shedlock_version()")[0][0];
    about_ = {encoding_named(facts[0]),
              static_cast<std::size_t>(std::stoi(facts[3])),
              std::stoi(facts[1]),
              facts[2],
              facts[4],
              edition == "t"};
    longest_name_ = static_cast<std::size_t>(std::stoi(facts[5]));
    while (names_.size() < 24)
        if (auto name = nasty_text(random_); is_valid(about_.of_database, name))
            names_.push_back(name);
    oracle_ = std::make_unique<oracle>(about_);
    oracle_->known = sessions_[0]->all_rows();
}

// One session per isolation level; one has a default for at_most.
void fuzzer::connect(std::size_t i)
{
    static constexpr const char *isolation[] = {"read committed", "repeatable read", "serializable"};
    sessions_[i] = std::make_unique<session>(database_, isolation[i], i == 2 ? "5min" : "");
    if (i == 2)
        sessions_[i]->default_at_most = interval{300 * second, 0, 0};
}

void fuzzer::require(const std::string &wrong, const std::string &after) const
{
    if (!wrong.empty())
        throw std::runtime_error(wrong + "\n  after " + after);
}

void fuzzer::count(const call &made, const outcome &seen)
{
    const auto what = seen.error                             ? "error " + *seen.error
                      : made.what == function::acquire_token ? (seen.is_null ? "null" : "token")
                      : seen.is_true()                       ? "true"
                                                             : "false";
    counts_[std::string{signature_of(made.what).name} + " " + what]++;
    for (const auto &warning : seen.warnings)
        counts_["warning " + warning]++;
    if (seen.error)
        counts_[what]++;
    else if (const auto &name = made.names.front().value(); !made.is_array && name.empty())
        counts_["the empty name accepted"]++;
    else if (count_characters(about_.of_database, name) > about_.name_limit)
        counts_["names accepted that are too long"]++;
}

knowledge fuzzer::knowledge_now() const
{
    std::vector<std::string> marks;
    for (const auto &one : sessions_)
        marks.push_back(one->mark());
    return {about_.of_database, about_.name_limit, names_, oracle_->known, now_, marks};
}

void fuzzer::make_call()
{
    auto &caller = *random_.any_of(sessions_);
    const auto made = random_call(random_, knowledge_now());
    last_call_ = description(made);
    const auto seen = caller.make(made, oracle_->names_of(made));
    std::string after = last_call_ + "\n  by " + caller.mark() + " from " + std::to_string(seen.before) + " to " +
                        std::to_string(seen.after) + (seen.error ? " error " + *seen.error : "");
    for (const auto &warning : seen.warnings)
        after += " warning " + warning;
    after += " value " + printable(seen.value);
    for (const auto &name : oracle_->names_of(made))
        after += "\n  before: " + description(oracle_->known, name) + "\n  now: " + description(seen.found, name);
    require(oracle_->judge(made, caller, seen), after);
    now_ = seen.after;
    count(made, seen);
}

// Inserts a row by hand, as a user with psql might.
void fuzzer::insert()
{
    const auto length =
        random_.any_of(std::vector{std::size_t{0}, about_.name_limit, about_.name_limit + 1, longest_name_});
    const auto name = of_length(random_, about_.of_database, std::min(length, longest_name_));
    auto &editor = *random_.any_of(sessions_);
    editor.insert(name);
    note_edit(editor, name, "an INSERT by hand");
}

void fuzzer::edit()
{
    static const std::vector<std::string> edits = {
        "lock_until = 'infinity'",
        "lock_until = '-infinity'",
        "lock_until = '294276-12-31 23:59:59.999999'",
        "lock_until = '4713-01-01 BC'",
        "lock_until = timezone('utc', clock_timestamp()) + interval '2 ms'",
        "lock_until = timezone('utc', clock_timestamp()) - interval '1 day'",
        "locked_at = 'infinity'",
        "locked_at = '-infinity'",
        "locked_at = '294276-12-31 23:59:59.999999'",
        "locked_at = '4713-01-01 BC'",
        "locked_at = GREATEST(locked_at, '1900-01-01') - interval '1 us'",
        "locked_at = GREATEST(locked_at, '1900-01-01') - interval '1 day'",
        "locked_at = LEAST(locked_at, '2100-01-01') + interval '30 s'",
        "locked_at = '1970-01-01'",
        "locked_at = '1970-01-01 00:00:00.000001'",
        "locked_at = '33658-09-27 01:46:40'", // the first token of 19 digits
        "locked_by = ''",
        "locked_by = 'host'",
        "locked_by = repeat('x', 255)",
        "locked_by = '#0'",
        "locked_by = 'x/1.2.3#4'",
        "lock_until = timezone('utc', clock_timestamp()) + interval '1 h'",
        "lock_at_least_until = NULL",
        "lock_at_least_until = 'infinity'",
        "lock_at_least_until = '-infinity'",
        "lock_at_least_until = timezone('utc', clock_timestamp()) + interval '1 h'",
        "last_tick = NULL",
        "last_tick = 'infinity'",
        "last_tick = '-infinity'",
        "last_tick = '294276-12-31 23:59:59.999999'",
        "last_tick = timezone('utc', clock_timestamp()) + interval '30 s'",
        "last_tick = timezone('utc', clock_timestamp()) - interval '1 day'",
        "last_tick = last_done_tick",
        "last_done_tick = NULL",
        "last_done_tick = 'infinity'",
        "last_done_tick = '-infinity'",
        "last_done_tick = '294276-12-31 23:59:59.999999'",
        "last_done_tick = GREATEST(last_tick, '1900-01-01') - interval '1 us'",
        "last_done_tick = LEAST(last_tick, '2100-01-01') + interval '1 us'",
        "last_done_tick = LEAST(locked_at, '2100-01-01'), locked_at = LEAST(locked_at, '2100-01-01') + interval '1 us'",
        "run_tick = NULL",
        "run_tick = 'infinity'",
        "run_tick = last_tick",
        "last_done_at = NULL",
        "last_done_at = 'infinity'",
        "last_done_at = '4713-01-01 BC'",
        ""};
    if (oracle_->known.empty())
        return;
    const auto place = random_.between(0, static_cast<std::int64_t>(oracle_->known.size()) - 1);
    const auto [name, known] = *std::next(oracle_->known.begin(), place);
    auto &editor = *random_.any_of(sessions_);
    const bool is_imitation = random_.one_in(2);
    const auto assignments = is_imitation ? imitation(known) : random_.any_of(edits);
    // SQL cannot calculate with these, and the portable edition fails with 22008.
    static const std::regex extreme{"294276|4713|33658|locked_at = 'infinity'|lock_until = '-infinity'"};
    if (about_.is_portable && std::regex_search(assignments, extreme))
        return;
    editor.edit(name, assignments);
    note_edit(editor, name, "an edit: " + assignments);
    if (const auto found = oracle_->known.find(name); found != oracle_->known.end() && is_imitation)
        counts_[std::string{"imitations of "} + to_text(ending_of(found->second))]++;
}

// A locked_by that resembles one of ours, in a row that is otherwise unchanged, or that is made to look held, or not
// released.
std::string fuzzer::imitation(const row &known)
{
    const auto text = near_ours(random_, knowledge_now(), &known);
    static const std::string later = "timezone('utc', clock_timestamp()) + interval '1 h'";
    return "locked_by = '" + text + "'" + (random_.one_in(2) ? ", lock_until = " + later : "") +
           (random_.one_in(2) ? ", lock_at_least_until = " + (random_.one_in(2) ? later : "'2020-01-01'") : "");
}

void fuzzer::note_edit(session &editor, const std::string &name, const std::string &what)
{
    const auto all = editor.all_rows();
    oracle_->known.erase(name);
    if (const auto found = all.find(name); found != all.end())
        oracle_->known[name] = found->second;
    require(oracle_->settle(all), what);
    counts_["edits by hand"]++;
}

void fuzzer::look_at_all()
{
    auto &any = *random_.any_of(sessions_);
    require(oracle_->settle(any.all_rows()), last_call_ + " or an earlier call");
    require(judge_view(any, oracle_->known, about_), "a look");
    std::vector<std::string> texts;
    while (texts.size() < 20)
        texts.push_back(near_session(random_, knowledge_now()));
    require(judge_sessions(any, texts), "a look");
    require(judge_protection(any, oracle_->known), "a look");
    require(judge_portable_parser(any, oracle_->known), "a look");
    counts_["looks at all rows"]++;
}

void fuzzer::run(std::int64_t calls)
{
    for (std::int64_t i = 0; i < calls; i++) {
        if (random_.one_in(25))
            random_.one_in(4) ? insert() : edit();
        if (random_.one_in(400))
            look_at_all();
        if (random_.one_in(5000))
            connect(static_cast<std::size_t>(random_.between(0, 2)));
        make_call();
    }
    look_at_all();
    for (const auto &[what, times] : counts_)
        std::cout << what << ": " << times << "\n";
}

} // namespace

int main(int count, char **arguments)
{
    if (count != 4)
        return 2;
    try {
        fuzzer{arguments[1], std::strtoull(arguments[2], nullptr, 10)}.run(std::atoll(arguments[3]));
    } catch (const std::exception &e) {
        std::cerr << "seed " << arguments[2] << ": " << e.what() << "\n";
        return 1;
    }
}
