#include "verdict.hpp"

#include <algorithm>
#include <sstream>

using shedlock::acquisition_state;
using shedlock::duration;
using shedlock::history;
using shedlock::instant;
using shedlock::lease;
using shedlock::origin;

namespace {

constexpr std::string_view done_before = "It has been released before, as done.";
constexpr std::string_view acquired_again = "It has been released as done, and was acquired again since.";

bool is_close(instant a, instant b, duration blur)
{
    return a == b || (a != shedlock::forever && b != shedlock::forever && a - b <= blur && b - a <= blur);
}

bool is_close(std::optional<instant> a, std::optional<instant> b, duration blur)
{
    return a.has_value() == b.has_value() && (!a || is_close(*a, *b, blur));
}

bool is_same(const lease &a, const lease &b, duration blur)
{
    return is_close(a.lock_until, b.lock_until, blur) && is_close(a.locked_at, b.locked_at, blur) &&
           is_close(a.lock_at_least_until, b.lock_at_least_until, blur);
}

bool is_same(const history &a, const history &b, duration blur)
{
    return is_close(a.last_tick, b.last_tick, blur) && is_close(a.last_done_tick, b.last_done_tick, blur) &&
           is_close(a.last_done_at, b.last_done_at, blur) && is_close(a.run_tick, b.run_tick, blur);
}

bool is_same(const std::optional<record> &a, const std::optional<record> &b, duration blur)
{
    return a.has_value() == b.has_value() &&
           (!a || (is_same(a->times, b->times, blur) && is_same(a->past, b->past, blur) &&
                   (blur > duration{} || a->locked_by == b->locked_by)));
}

std::string number(instant t)
{
    return std::to_string(t.time_since_epoch().count());
}

origin origin_of(const record &row)
{
    std::string_view text{row.locked_by};
    if (const auto token = number(row.times.locked_at); text.ends_with(token))
        text.remove_suffix(token.size());
    else
        return {};
    if (text.ends_with('#'))
        return {origin::kinds::token, {}};
    if (text.ends_with('*'))
        return {origin::kinds::administrator, {}};
    const auto kind = text.ends_with('&') ? origin::kinds::token : origin::kinds::session;
    const bool ends_with_session = !text.ends_with(':');
    text.remove_suffix(1);
    return {kind, text.substr(text.find_last_of('/')), ends_with_session};
}

history past_of(const std::optional<record> &row)
{
    return row ? shedlock::history_of(row->past, row->times, origin_of(*row)) : history{};
}

// Judges one answer. Each check returns a description of what is wrong, or an empty string.
class judgement {
public:
    judgement(const operation &op, const answer &given, const circumstances &known, std::span<const state> during,
              const state &before, const std::optional<state> &after)
        : op_{op}, given_{given}, known_{known}, during_{during}, before_{before}, after_{after}
    {
    }

    verdict decide()
    {
        expected_ = before_;
        auto problem = find_problem();
        if (problem.empty())
            problem = compare();
        return {problem, after_.value_or(expected_)};
    }

private:
    std::string find_problem()
    {
        const bool may_be_lost = op_.what == verb::guard || op_.what == verb::guard_and_release ||
                                 op_.what == verb::complete || op_.what == verb::run;
        if (!given_.error.empty() && !(given_.error == "SL001" && may_be_lost))
            return "fails with " + given_.error + ", " + given_.message;
        switch (op_.what) {
        case verb::acquire:
        case verb::pause:
            return acquire();
        case verb::extend:
        case verb::release:
            return change();
        case verb::force_release:
            return force_release();
        case verb::resume:
            return resume();
        case verb::forget:
            return forget();
        case verb::guard:
            return guard();
        case verb::guard_and_release:
            return given_.error.empty() ? change() : guard();
        case verb::complete:
            return given_.error.empty() ? complete() : not_completed();
        case verb::run:
            return run();
        case verb::java_acquire:
        case verb::java_update:
        case verb::java_unlock:
        case verb::java_extend:
            return java();
        case verb::by_hand:
            if (given_.affected > 0)
                by_hand();
            return {};
        case verb::maintenance:
            return {};
        }
        return {};
    }

    std::size_t count() const { return op_.of_both ? names : 1; }
    bool says_yes() const { return !given_.value.empty() && given_.value != "f"; }
    // was_free: at some instant of the call. is_free: at every instant of it.
    bool was_free(const std::optional<record> &row) const { return !row || row->times.lock_until <= given_.ended; }
    bool is_free(const std::optional<record> &row) const { return !row || row->times.lock_until <= given_.begun; }
    bool is_in_call(instant t) const { return t >= given_.begun && t <= given_.ended; }

    shedlock::identity caller() const
    {
        return op_.by_token ? shedlock::identity{{}, known_.token} : shedlock::identity{known_.mark, {}};
    }

    // Its tick is no longer due.
    bool is_not_due(const std::optional<record> &row) const
    {
        return row && shedlock::availability_of(row->times, given_.ended, {op_.tick, true}, past_of(row)) ==
                          shedlock::availability::not_due;
    }

    bool could_be_refused() const
    {
        return known_.may_collide || std::ranges::any_of(during_, [&](const state &one) {
                   if (is_not_due(one[0]))
                       return true;
                   return !std::all_of(one.begin(), one.begin() + static_cast<std::ptrdiff_t>(count()),
                                       [&](const auto &row) { return is_free(row); });
               });
    }

    std::string acquire()
    {
        if (!says_yes())
            return could_be_refused() ? "" : "is refused, although the lock was free at every instant";
        for (std::size_t i = 0; i < count(); i++)
            if (auto problem = acquired(i); !problem.empty())
                return problem;
        return {};
    }

    // Checks the row against what our acquisition must leave. Only the server knows the instant, so it is taken from
    // the row, and must be within the call.
    std::string acquired(std::size_t i)
    {
        if (!was_free(before_[i]))
            return "is granted, although the lock is held";
        if (is_not_due(before_[i]))
            return "is granted, although its tick is not due";
        const bool has_end = op_.what != verb::pause;
        const auto last = has_end ? std::optional{duration{at_most}} : std::nullopt;
        if (!after_) {
            const auto token = op_.by_token ? known_token() : given_.ended;
            expected_[i] = acquired_row(i, token, given_.ended, shedlock::granted(given_.ended, token, last, {}, unit));
            return {};
        }
        const auto &row = (*after_)[i];
        if (!row)
            return "is granted, but there is no row";
        const auto token = row->times.locked_at;
        const auto now = has_end ? row->times.lock_at_least_until.value_or(shedlock::never) : token;
        const auto expected = acquired_row(i, token, now, shedlock::granted(now, token, last, {}, unit));
        if (!is_in_call(now) || !is_same(row->times, expected.times, {}))
            return "is granted, but its times are not those of this call";
        if (!is_same(row->past, expected.past, {}))
            return "is granted, but the row's history of runs is wrong";
        if (token <= known_.latest[i] || (before_[i] && token <= before_[i]->times.locked_at))
            return "gets a token that is not greater than an earlier one";
        if (op_.by_token && token != known_token())
            return "gets a token that differs from the one in the row";
        if (!row->locked_by.ends_with(expected.locked_by))
            return "is granted, but the row belongs to another owner";
        expected_[i] = row;
        return {};
    }

    // Of locked_by it has only the end, without the holder.
    record acquired_row(std::size_t i, instant token, instant now, lease times) const
    {
        if (op_.what == verb::pause)
            times.lock_at_least_until.reset();
        const auto end = op_.what == verb::pause ? "*" : op_.by_token ? "#" : known_.mark + ":";
        const auto past = past_of(before_[i]);
        return {times, end + number(token),
                op_.what == verb::pause ? shedlock::without_run(past) : shedlock::begun(past, op_.tick, now, unit)};
    }

    instant known_token() const { return instant{duration{std::stoll(given_.value)}}; }

    // Why a release or an extend fails at that instant: the beginning of its DETAIL. Empty if it succeeds.
    std::string_view reason(const std::optional<record> &row, instant now) const
    {
        if (!row)
            return "Nobody ever acquired it, or its row has been deleted.";
        const auto who = caller();
        switch (shedlock::state_of({row->times, origin_of(*row), {}}, who, now, row->past)) {
        case acquisition_state::live:
            return "";
        case acquisition_state::done:
            return who.token && row->times.locked_at > *who.token ? acquired_again : done_before;
        case acquisition_state::failed:
            return "It has been released before.";
        case acquisition_state::expired:
            return "Its lease ended at ";
        case acquisition_state::foreign:
            break;
        }
        if (shedlock::is_paused(row->times))
            return "It is paused";
        if (who.token && row->times.locked_at < *who.token)
            return "No acquisition has had this token.";
        if (who.token && row->times.locked_at == *who.token)
            return origin_of(*row).is_run() ? "That acquisition belongs to a session"
                                            : "That token does not own the lock";
        if (origin_of(*row).kind == shedlock::origin::kinds::administrator)
            return "An administrator intervened";
        if (who.token)
            return "It was taken over by ";
        return row->times.lock_until <= now ? "It is free. " : "It is held, but not by this session";
    }

    std::string change() { return says_yes() ? changed() : not_changed(); }

    std::string changed()
    {
        for (std::size_t i = 0; i < count(); i++) {
            if (const auto why_not = reason(before_[i], given_.begun); !why_not.empty())
                return "answers true, although it should fail: " + std::string{why_not};
            if (op_.what == verb::extend)
                expected_[i]->times = extended(i);
            else
                release_expected(i);
            if (after_ && (*after_)[i] && !is_in_call(instant_of_change(i)))
                return "wrote the time of another call";
        }
        return {};
    }

    // When the change was made, according to the row.
    instant instant_of_change(std::size_t i) const
    {
        if (!after_ || !(*after_)[i])
            return given_.ended;
        const auto until = (*after_)[i]->times.lock_until;
        return op_.what == verb::extend ? until - at_most_of_extend : until;
    }

    lease extended(std::size_t i) const
    {
        return shedlock::extended(before_[i]->times, instant_of_change(i), at_most_of_extend, {}, unit);
    }
    // (No lock here has an at_least, so lock_until is the time of the release.)
    void release_expected(std::size_t i)
    {
        const auto now = instant_of_change(i);
        expected_[i]->times = shedlock::released(before_[i]->times, now, op_.is_done, unit);
        if (op_.is_done)
            expected_[i]->past = shedlock::done(before_[i]->past, now);
    }

    bool was_ever(std::string_view detail) const
    {
        return std::ranges::any_of(during_, [&](const state &one) {
            return std::any_of(one.begin(), one.begin() + static_cast<std::ptrdiff_t>(count()), [&](const auto &row) {
                return is_reason(detail, row, given_.begun) || is_reason(detail, row, given_.ended);
            });
        });
    }

    bool is_reason(std::string_view detail, const std::optional<record> &row, instant now) const
    {
        const auto why = reason(row, now);
        return !why.empty() && detail.starts_with(why);
    }

    // Whether at some instant each lock was ours and live, or done.
    bool was_ever_done() const
    {
        return std::ranges::any_of(during_, [&](const state &one) {
            return std::all_of(one.begin(), one.begin() + static_cast<std::ptrdiff_t>(count()), [&](const auto &row) {
                const auto why = reason(row, given_.ended);
                return why.empty() || why == done_before || why == acquired_again;
            });
        });
    }

    std::string not_changed() const
    {
        if (given_.warnings.size() != 1)
            return "answers false, but not with exactly one WARNING";
        const auto &[sqlstate, detail] = given_.warnings[0];
        const bool is_done = detail == done_before || detail == acquired_again;
        if (sqlstate != (is_done ? "SL002" : "SL001"))
            return "gives " + sqlstate + " for: " + detail;
        if (is_done && !was_ever_done())
            return "hides a loss behind: " + detail;
        return was_ever(detail) ? "" : "gives a reason that was true at no instant: " + detail;
    }

    std::string force_release()
    {
        const bool was_absent = std::ranges::any_of(during_, [](const state &one) { return !one[0]; });
        const bool is_unchanged = after_ && is_same((*after_)[0], before_[0], known_.blur);
        if (!says_yes() && was_absent && (is_unchanged || !after_))
            return {};
        if (!before_[0])
            return "answers true or leaves a row, although there was none";
        if (!says_yes() && is_unchanged && known_.blur == duration{})
            return "leaves alone a row that existed at every instant";
        if (says_yes() ? is_free(before_[0]) : !was_free(before_[0]))
            return says_yes() ? "answers true, although it was not held" : "answers false, although it was held";
        const auto now = instant_of_change(0);
        expected_[0]->times = shedlock::freed(before_[0]->times, now, unit);
        expected_[0]->past = shedlock::without_run(past_of(before_[0]));
        expected_[0]->locked_by =
            after_ && (*after_)[0] ? (*after_)[0]->locked_by : "*" + number(expected_[0]->times.locked_at);
        return is_in_call(now) ? "" : "wrote the time of another call";
    }

    std::string resume()
    {
        const auto is_paused = [](const state &one) { return one[0] && shedlock::is_paused(one[0]->times); };
        if (!says_yes())
            return std::ranges::all_of(during_, is_paused) ? "answers false, although it was paused all the time" : "";
        if (!is_paused(before_))
            return "answers true, although it was not paused";
        expected_[0]->times = shedlock::resumed(before_[0]->times, instant_of_change(0), unit);
        return is_in_call(instant_of_change(0)) ? "" : "wrote the time of another call";
    }

    bool is_past(const std::optional<record> &row, instant now) const
    {
        return row && shedlock::is_past(row->times, past_of(row), now, unit);
    }

    std::string forget()
    {
        const bool must_be = !known_.may_collide && std::ranges::all_of(during_, [&](const state &one) {
            return is_past(one[0], given_.begun);
        });
        if (!says_yes())
            return must_be ? "answers false, although the row could be forgotten at every instant" : "";
        if (!is_past(before_[0], given_.ended))
            return "answers true, although the row is needed or missing";
        expected_[0].reset();
        return {};
    }

    // The latest acquisition is ours, whether its lease has ended or not.
    bool is_guardable(const std::optional<record> &row) const
    {
        if (!row)
            return false;
        const auto from = origin_of(*row);
        return op_.by_token ? row->times.locked_at == known_.token && from.kind == shedlock::origin::kinds::token
                            : from.session == known_.mark;
    }

    std::string guard() const
    {
        if (given_.error.empty())
            return is_guardable(before_[0]) ? "" : "passes, although the lock is lost";
        const bool says_absent = given_.detail.find("row has been deleted") != std::string::npos;
        const bool is_true = std::ranges::any_of(during_, [&](const state &one) {
            const bool says_busy = given_.detail.starts_with("Another transaction is ");
            return says_busy ? known_.may_collide && is_free(one[0]) : !is_guardable(one[0]) && says_absent == !one[0];
        });
        return is_true ? "" : "gives a reason that was true at no instant: " + given_.detail;
    }

    // Whether the lock is ours, as for a release, but even if its lease has ended.
    bool is_own(const std::optional<record> &row) const
    {
        if (!row || shedlock::is_paused(row->times))
            return false;
        const auto from = origin_of(*row);
        return op_.by_token ? from.kind == origin::kinds::token && row->times.locked_at == known_.token
                            : from.kind == origin::kinds::session && from.session == known_.mark;
    }

    std::string complete()
    {
        std::size_t late = 0;
        for (std::size_t i = 0; i < count(); i++) {
            if (!is_own(before_[i]))
                return "commits, although the lock is lost";
            if (shedlock::is_released(before_[i]->times))
                return "commits, although the lock was released before";
            late += is_free(before_[i]);
            release_expected(i);
            if (after_ && (*after_)[i] && !is_in_call(instant_of_change(i)))
                return "wrote the time of another call";
        }
        return given_.warnings.size() == late ? "" : "warns without a reason, or does not warn";
    }

    std::string not_completed() const
    {
        const auto &detail = given_.detail;
        const auto is_true_of = [&](const std::optional<record> &row) {
            if (detail.starts_with("Another transaction is "))
                return known_.may_collide && is_free(row);
            if (detail.find("row has been deleted") != std::string::npos)
                return !row;
            if (detail == "It has been released before.")
                return is_own(row) && shedlock::is_released(row->times);
            return row && !is_own(row);
        };
        const bool is_true = std::ranges::any_of(during_, [&](const state &one) {
            return std::any_of(one.begin(), one.begin() + static_cast<std::ptrdiff_t>(count()), is_true_of);
        });
        return is_true ? "" : "gives a reason that was true at no instant: " + detail;
    }

    std::string run()
    {
        const bool says_lost = !given_.error.empty();
        if (!says_lost && !says_yes())
            return could_be_refused() ? "" : "is refused, although the lock was free at every instant";
        if (known_.ran)
            return run_ended(says_lost);
        if (says_lost)
            return "says that the lock is lost, although it was acquired after all other operations had ended";
        if (!was_free(before_[0]))
            return "is executed, although the lock is held";
        if (after_ && (!(*after_)[0] || !is_in_call((*after_)[0]->times.locked_at) ||
                       (*after_)[0]->times.locked_at <= known_.latest[0]))
            return "leaves no row of its own, or too small a token";
        const auto token = after_ ? (*after_)[0]->times.locked_at : given_.ended;
        const auto now = instant_of_change(0);
        expected_[0] = {{now, token, std::nullopt},
                        after_ ? (*after_)[0]->locked_by : known_.mark + "!" + number(token),
                        shedlock::done(shedlock::begun(past_of(before_[0]), {}, token, unit), now)};
        if (!expected_[0]->locked_by.ends_with(known_.mark + "!" + number(token)))
            return "leaves a row that belongs to another owner";
        return is_in_call(instant_of_change(0)) ? "" : "is not released";
    }

    // A run that was stopped after it had acquired, so that others met its lock.
    std::string run_ended(bool says_lost)
    {
        const auto is_mine = [&](const state &one) {
            return one[0] && one[0]->times.locked_at == known_.ran && origin_of(*one[0]).session == known_.mark;
        };
        const auto could_be_lost = [&](const state &one) {
            return !is_mine(one) || shedlock::is_released(one[0]->times) || (known_.may_collide && is_free(one[0]));
        };
        if (const auto &first = during_.front(); is_mine(first) && shedlock::is_released(first[0]->times))
            return says_lost ? "says that the lock is lost after its release" : "";
        if (says_lost)
            return std::ranges::any_of(during_, could_be_lost)
                       ? ""
                       : "says that the lock is lost, although it was not at any instant";
        if (!is_mine(before_) || shedlock::is_released(before_[0]->times))
            return "does not say that the lock is lost";
        if (given_.warnings.empty() == is_free(before_[0]))
            return "warns without a reason, or does not warn";
        release_expected(0);
        return {};
    }

    std::string java()
    {
        const bool did = given_.affected == 1;
        bool should = before_[0].has_value();
        const bool free = did ? was_free(before_[0]) : is_free(before_[0]);
        if (op_.what == verb::java_acquire)
            should = free;
        else if (op_.what == verb::java_update)
            should = should && free;
        else
            should =
                should && before_[0]->locked_by == "java" && (op_.what == verb::java_unlock || !is_free(before_[0]));
        if (did && after_)
            expected_ = *after_;
        else if (did)
            expected_[0] = {{given_.ended + at_most, given_.ended, at_least_before()},
                            "java",
                            before_[0] ? before_[0]->past : history{}};
        return did == should ? "" : did ? "changes a row that it should not" : "does not change its row";
    }

    std::optional<instant> at_least_before() const
    {
        return before_[0] ? before_[0]->times.lock_at_least_until : std::nullopt;
    }

    void by_hand()
    {
        if (after_)
            expected_ = *after_;
        else if (op_.sql.starts_with("DELETE"))
            expected_[0].reset();
    }

    std::string compare() const
    {
        for (std::size_t i = 0; after_ && i < names; i++)
            if (!is_same((*after_)[i], expected_[i], known_.blur))
                return "leaves " + describe(*after_) + " instead of " + describe(expected_);
        return {};
    }

    const operation &op_;
    const answer &given_;
    const circumstances &known_;
    std::span<const state> during_;
    const state &before_;
    const std::optional<state> &after_;
    state expected_{};
};

void write_time(std::ostream &out, const char *label, instant t)
{
    out << label;
    if (t == shedlock::forever)
        out << "forever";
    else
        out << t.time_since_epoch().count();
}

} // namespace

std::string describe(const state &both)
{
    std::ostringstream out;
    for (const auto &row : both) {
        out << '[';
        if (!row) {
            out << "no row]";
            continue;
        }
        write_time(out, "until ", row->times.lock_until);
        write_time(out, " at ", row->times.locked_at);
        if (row->times.lock_at_least_until)
            write_time(out, " at least ", *row->times.lock_at_least_until);
        out << " by " << row->locked_by;
        const auto &past = row->past;
        for (const auto &[label, time] : {std::pair{" last tick ", past.last_tick},
                                          {" last done tick ", past.last_done_tick},
                                          {" last done at ", past.last_done_at},
                                          {" run tick ", past.run_tick}})
            if (time)
                write_time(out, label, *time);
        out << ']';
    }
    return out.str();
}

verdict judge(const operation &op, const answer &given, const circumstances &known, std::span<const state> during,
              const state &before, const std::optional<state> &after)
{
    return judgement{op, given, known, during, before, after}.decide();
}
