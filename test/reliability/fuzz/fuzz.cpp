// fuzz DATABASE SEED CALLS: makes CALLS random calls of the public functions, from three sessions, each of the
// extension and, at the same instant of a clock that stands still, of the portable edition. Answers, errors, warnings
// and rows must be the same. At the first difference it prints the call and exits with 1. If there is none, it prints
// counts.
#include "view.hpp"

#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <set>

namespace {

constexpr const char *editions[] = {"extension", "portable"}; // their schemas

class fuzzer {
public:
    fuzzer(const std::string &database, std::uint64_t seed);
    void run(std::int64_t calls);

private:
    void connect(std::size_t i);
    void set_clock(moment);
    void pass_time();
    knowledge what_is_known() const;
    void make_call();
    void copy_rows(session &, const std::vector<std::string> &names);
    void learn(session &, const std::vector<std::string> &names, const std::string &after);
    void edit();
    std::string imitation(const row &);
    void insert();
    void look_at_all();
    void count(const call &, const reply &);

    std::string database_;
    random_numbers random_;
    std::vector<std::unique_ptr<session>> sessions_;
    moment now_ = 0;
    std::string encoding_;
    std::size_t name_limit_ = 0, longest_name_ = 0; // of a lock, and that fits into the table's column
    std::vector<std::string> names_;
    std::string its_moment_; // a name, or empty
    rows known_;             // the rows of both editions
    std::set<std::string> ever_extreme_;
    std::string last_call_;
    std::map<std::string, std::int64_t> counts_;
};

fuzzer::fuzzer(const std::string &database, std::uint64_t seed) : database_(database), random_(seed), sessions_(3)
{
    for (std::size_t i = 0; i < sessions_.size(); i++)
        connect(i);
    auto &first = *sessions_[0];
    const auto facts =
        first.query("SELECT getdatabaseencoding(), CASE WHEN atttypmod > 0 THEN atttypmod - 4 ELSE 255 END, "
                    "CASE WHEN atttypmod > 0 THEN atttypmod - 4 ELSE 1000 END, "
                    "((extract(epoch FROM clock_timestamp()) - 946684800) * 1000000)::bigint FROM pg_attribute "
                    "WHERE attrelid = 'extension.shedlock'::regclass AND attname = 'name'")[0];
    encoding_ = facts[0];
    name_limit_ = std::stoul(facts[1]);
    longest_name_ = std::stoul(facts[2]);
    set_clock(std::stoll(facts[3]));
    while (names_.size() < 24)
        if (auto name = nasty_text(random_); first.is_valid(name))
            names_.push_back(name);
    std::vector<std::string> found;
    for (const auto &line : first.query("SELECT name FROM extension.shedlock"))
        found.push_back(line[0]);
    learn(first, found, "the installation");
}

// One session per isolation level; one has a default for at_most.
void fuzzer::connect(std::size_t i)
{
    static constexpr const char *isolation[] = {"read committed", "repeatable read", "serializable"};
    sessions_[i].reset();
    sessions_[i] = std::make_unique<session>(database_, isolation[i], i == 2 ? "5min" : "");
    sessions_[i]->set_clock(now_);
}

void fuzzer::set_clock(moment now)
{
    now_ = now;
    for (const auto &one : sessions_)
        if (one)
            one->set_clock(now);
}

// None, or a little, or until an instant at which a row's lease, at_least or tick makes a difference; the next call
// probably is about that row. Sometimes the clock steps back.
void fuzzer::pass_time()
{
    constexpr std::int64_t year = 365 * 86'400 * second;
    its_moment_.clear();
    if (random_.one_in(200))
        return set_clock(now_ - random_.between(0, 3600 * second));
    if (random_.one_in(3))
        return;
    for (int tries = random_.one_in(2) ? 0 : 10; tries > 0; tries--) {
        const auto found = known_.find(random_.any_of(names_));
        if (found == known_.end())
            continue;
        const auto &row = found->second;
        const auto instant = random_.any_of(std::vector<std::optional<moment>>{row.lock_until, row.lock_at_least_until,
                                                                               row.last_tick, row.last_done_tick});
        if (instant > now_ && instant < now_ + year / 10) {
            its_moment_ = found->first;
            return set_clock(*instant + random_.between(-1, 1));
        }
    }
    set_clock(now_ + (random_.between(0, year / 100) >> random_.between(0, 38)));
}

knowledge fuzzer::what_is_known() const
{
    std::vector<std::string> marks;
    for (const auto &one : sessions_)
        marks.push_back(one->mark());
    return {encoding_, name_limit_, names_, its_moment_, known_, now_, marks};
}

void require(const std::string &wrong, const std::string &after)
{
    if (!wrong.empty())
        throw std::runtime_error(wrong + "\n  after " + after);
}

std::string to_text(const reply &answer)
{
    std::string text = answer.error.empty() ? "value " + (answer.is_null ? "NULL" : printable(answer.value))
                                            : "error " + answer.error + " " + printable(answer.text);
    for (const auto &warning : answer.warnings)
        text += "\n    warning " + printable(warning);
    return text;
}

std::string to_text(const rows &all)
{
    const auto time = [](std::optional<moment> t) { return t ? std::to_string(*t) : "NULL"; };
    std::string text;
    for (const auto &[name, row] : all)
        text += "\n    \"" + printable(name) + "\" lock_until " + time(row.lock_until) + " locked_at " +
                time(row.locked_at) + " locked_by \"" + printable(row.locked_by) + "\" lock_at_least_until " +
                time(row.lock_at_least_until) + " last_tick " + time(row.last_tick) + " last_done_tick " +
                time(row.last_done_tick) + " last_done_at " + time(row.last_done_at) + " run_tick " +
                time(row.run_tick);
    return text.empty() ? " none" : text;
}

// The portable edition calculates with PostgreSQL's types, which have their own words for what is out of their range.
bool is_same(const reply &extension, const reply &portable)
{
    return extension == portable || (extension.error == "22008" && portable.error == "22008");
}

// A row that was edited to be beyond what SQL can calculate with. The portable edition may fail with 22008 there.
bool is_extreme(const row &r)
{
    const auto is_beyond = [](std::optional<moment> t) {
        return t && *t != infinity && *t != minus_infinity &&
               (*t > infinity - epoch_difference || *t < -200'000'000'000'000'000);
    };
    return is_beyond(r.lock_until) || is_beyond(r.locked_at) || is_beyond(r.lock_at_least_until) ||
           is_beyond(r.last_tick) || is_beyond(r.last_done_tick) || is_beyond(r.last_done_at) ||
           r.locked_at == infinity || r.lock_until == minus_infinity;
}

bool is_extreme(const rows &all)
{
    return std::any_of(all.begin(), all.end(), [](const auto &one) { return is_extreme(one.second); });
}

void fuzzer::make_call()
{
    pass_time();
    auto &caller = *random_.any_of(sessions_);
    auto made = random_call(random_, what_is_known());
    const auto begun = now_;
    last_call_ = to_text(made) + "\n  by " + caller.mark() + " at " + std::to_string(begun);
    rows before;
    for (const auto &name : made.names)
        if (const auto found = known_.find(name); found != known_.end())
            before.insert(*found);
    last_call_ += "\n  before:" + to_text(before);

    const auto ours = caller.make(made, "extension");
    const auto ended = caller.clock();
    caller.set_clock(begun);
    const auto theirs = caller.make(made, "portable");
    last_call_ += "\n  extension: " + to_text(ours) + "\n  portable: " + to_text(theirs);
    if (!ours.error.empty())
        std::erase_if(made.names, [&](const auto &name) { return !caller.is_valid(name); });
    if (is_extreme(before)) {
        copy_rows(caller, made.names);
    } else if (!is_same(ours, theirs)) {
        throw std::runtime_error("the editions answer differently\n  after " + last_call_);
    } else if (ended != caller.clock()) {
        throw std::runtime_error("only one edition has executed the command\n  after " + last_call_);
    }
    set_clock(ended);
    learn(caller, made.names, last_call_);
    count(made, ours);
}

// Gives the portable edition the extension's rows.
void fuzzer::copy_rows(session &any, const std::vector<std::string> &names)
{
    std::string list;
    for (const auto &name : names) {
        ever_extreme_.insert(name);
        list += (list.empty() ? "" : ", ") + any.quoted(name);
    }
    any.query("DELETE FROM portable.shedlock WHERE name IN (" + list +
              "); INSERT INTO portable.shedlock SELECT * FROM extension.shedlock WHERE name IN (" + list + ")");
}

// Reads the rows of these names, which must be the same in both editions.
void fuzzer::learn(session &any, const std::vector<std::string> &names, const std::string &after)
{
    const auto ours = any.rows_of("extension", names), theirs = any.rows_of("portable", names);
    if (ours != theirs)
        throw std::runtime_error("the rows differ:\n  extension:" + to_text(ours) + "\n  portable:" + to_text(theirs) +
                                 "\n  after " + after);
    for (const auto &name : names) {
        known_.erase(name);
        if (const auto found = ours.find(name); found != ours.end())
            known_.insert(*found);
    }
}

void fuzzer::count(const call &made, const reply &seen)
{
    const auto what = !seen.error.empty()                  ? "error " + seen.error
                      : seen.is_null                       ? "null"
                      : seen.value == std::string{"\1", 1} ? "true"
                      : made.function == "acquire_token"   ? "token"
                                                           : "false";
    counts_[std::string{made.function} + " " + what]++;
    for (const auto &warning : seen.warnings)
        counts_["warning " + warning.substr(0, 5)]++;
    if (!seen.error.empty())
        counts_[what]++;
    else
        for (const auto &name : made.names)
            counts_[name.empty() ? "the empty name accepted" : "names accepted"]++;
}

// Inserts a row by hand, as a user with psql might.
void fuzzer::insert()
{
    const auto length = random_.any_of(std::vector{std::size_t{0}, name_limit_, name_limit_ + 1, longest_name_});
    const auto name = of_length(random_, encoding_, std::min(length, longest_name_));
    auto &editor = *random_.any_of(sessions_);
    for (const std::string edition : editions)
        editor.query("INSERT INTO " + edition + ".shedlock (name, lock_until, locked_at, locked_by) VALUES (" +
                     editor.quoted(name) + ", '2026-01-01', '2026-01-01', 'host') ON CONFLICT DO NOTHING");
    learn(editor, {name}, "an INSERT by hand");
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
    if (known_.empty())
        return;
    const auto place = random_.between(0, static_cast<std::int64_t>(known_.size()) - 1);
    const auto [name, row] = *std::next(known_.begin(), place);
    auto &editor = *random_.any_of(sessions_);
    const bool is_imitation = random_.one_in(2);
    const auto assignments = is_imitation ? imitation(row) : random_.any_of(edits);
    const auto execute = [&](const std::string &assigned) {
        for (const std::string edition : editions)
            editor.query((assigned.empty() ? "DELETE FROM " + edition + ".shedlock"
                                           : "UPDATE " + edition + ".shedlock SET " + assigned) +
                         " WHERE name = " + editor.quoted(name));
        learn(editor, {name}, "an edit: " + assigned);
    };
    execute(assignments);
    counts_["edits by hand"]++;
    // Only a few names may ever be extreme, because their history is not compared.
    const auto found = known_.find(name);
    if (found == known_.end())
        return;
    if (is_extreme(found->second) && std::find(names_.end() - 6, names_.end(), name) == names_.end())
        return execute("");
    if (is_imitation)
        counts_["imitations of " + kind_of(known_.at(name))]++;
}

// A locked_by that resembles one of ours, in a row that is otherwise unchanged, or that is made to look held, or not
// released.
std::string fuzzer::imitation(const row &known)
{
    const auto text = near_ours(random_, what_is_known(), &known);
    static const std::string later = "timezone('utc', clock_timestamp()) + interval '1 h'";
    return "locked_by = '" + text + "'" + (random_.one_in(2) ? ", lock_until = " + later : "") +
           (random_.one_in(2) ? ", lock_at_least_until = " + (random_.one_in(2) ? later : "'2020-01-01'") : "");
}

void fuzzer::look_at_all()
{
    auto &any = *random_.any_of(sessions_);
    std::string others = "name <> ''";
    for (const auto &name : ever_extreme_)
        others += " AND name <> " + any.quoted(name);
    for (const std::string what : {"shedlock", "shedlock_locks", "shedlock_history"}) {
        const auto rows_of = [&](const std::string &edition) {
            return "(SELECT l::text FROM " + edition + "." + what + " l WHERE " + others + ")";
        };
        const auto different =
            any.query("(" + rows_of("extension") + " EXCEPT ALL " + rows_of("portable") + ") UNION ALL (" +
                      rows_of("portable") + " EXCEPT ALL " + rows_of("extension") + ") LIMIT 4");
        std::string lines;
        for (const auto &line : different)
            lines += "\n    " + printable(line[0]);
        require(lines.empty() ? "" : what + " differs:" + lines, last_call_ + " or an earlier call");
    }
    for (const std::string edition : editions)
        any.query("SELECT count(*), string_agg(finding, hint) FROM " + edition + ".shedlock_doctor()");
    any.query("SELECT * FROM extension.shedlock_stats");
    require(judge_view(any, "extension", known_), "a look");
    require(judge_protection(any, "extension", known_), "a look");
    counts_["looks at all rows"]++;
}

void fuzzer::run(std::int64_t calls)
{
    for (std::int64_t i = 0; i < calls; i++) {
        if (random_.one_in(25))
            random_.one_in(4) ? insert() : edit();
        if (random_.one_in(400))
            look_at_all();
        if (random_.one_in(100))
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
