#include "checker.hpp"

#include "rules/rules.hpp"

namespace checker {

namespace {

// If a reply is lost, the library repeats the request, and a "no" is the answer to the last one. An earlier one may
// have succeeded, and may have shortened the lease.
history::record with_what_may_have_been_done(history::record record)
{
    for (auto &op : record.operations)
        if (record.loses_replies() && op.by == history::maker::library && op.what == history::action::extend &&
            op.result == history::result::no)
            op.result = history::result::lost;
    return record;
}

} // namespace

std::vector<violation> check(const history::record &given)
{
    const auto record = with_completions_taken_apart(with_runs_taken_apart(with_what_may_have_been_done(given)));
    const world world{record};
    found all;
    for (const auto &[name, about] : world.names) {
        holds_exclude(world, about, all);
        claims_exclude(world, name, about, all);
        tokens_grow(world, about, all);
        ticks_run_once(world, about, all);
        refusals_have_reasons(world, name, about, all);
        only_holders_change(world, name, about, all);
        guards_fence(world, name, about, all);
    }
    rows_are_kept(world, record, all);
    losses_have_reasons(world, record, all);
    effects_are_exact(world, given, all);
    endings_are_recorded(world, given, all);
    errors_are_expected(world, record, all);
    clients_do_not_trust_too_long(world, record, all);
    nothing_is_acknowledged_without_standby(record, all);
    return all;
}

std::string to_text(const violation &broken)
{
    auto text = broken.rule + ": " + broken.why + '\n';
    for (const auto &op : broken.proof)
        text += "    " + op.call_line + "\n    " + op.done_line + '\n';
    return text;
}

} // namespace checker
