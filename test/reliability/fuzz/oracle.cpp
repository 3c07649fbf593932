#include "rules.hpp"

std::set<std::string> oracle::names_of(const call &made) const
{
    std::set<std::string> names;
    for (const auto &name : made.names)
        if (name && is_valid(about_.of_database, *name) && name->size() < 5000)
            names.insert(*name);
    return names;
}

std::string oracle::unchanged(const call &made, const outcome &seen) const
{
    for (const auto &name : names_of(made)) {
        const auto before = known.find(name), after = seen.found.find(name);
        if (before == known.end() ? after != seen.found.end()
                                  : after == seen.found.end() || !(before->second == after->second))
            return "the row of \"" + printable(name) + "\" changed";
    }
    return {};
}

std::string oracle::judge(const call &made, const session &caller, const outcome &seen)
{
    auto errors = errors_of(made, caller, about_, known, seen.before, seen.after);
    const bool good_arguments = !errors.certain;
    std::string wrong;
    if (good_arguments)
        wrong = judge_result(made, caller, seen, errors);
    if (wrong.empty() && errors.certain && !seen.error)
        wrong = "no error, although there must be one";
    if (wrong.empty() && seen.error)
        wrong = judge_error(made, caller, seen, errors, good_arguments);
    if (!wrong.empty())
        return wrong;
    for (const auto &name : names_of(made)) {
        known.erase(name);
        if (const auto found = seen.found.find(name); found != seen.found.end())
            known[name] = found->second;
    }
    return {};
}

// It must be one of the expected errors, and no row must have changed. But if it is the error of a run's own command,
// the rows must be as they are after a run that failed.
std::string oracle::judge_error(const call &made, const session &caller, const outcome &seen,
                                const expected_errors &errors, bool good_arguments) const
{
    if (!errors.possible.count(*seen.error))
        return "error " + *seen.error;
    const auto failed_command =
        made.what == function::run && good_arguments ? sqlstate_of_command(*made.text, about_.is_portable) : nullptr;
    const bool has_run = failed_command && *seen.error == failed_command;
    if (has_run)
        return judge_taken(made, caller, seen);
    return seen.warnings.empty() ? unchanged(made, seen) : "a warning in addition to the error";
}

std::string oracle::settle(const rows &all) const
{
    for (const auto &[name, old] : known)
        if (const auto found = all.find(name); found == all.end() || !(found->second == old))
            return "the row of \"" + printable(name) + "\" has changed";
    for (const auto &[name, found] : all)
        if (!known.count(name))
            return "there is a row of \"" + printable(name) + "\"";
    return {};
}

std::string oracle::judge_result(const call &made, const session &caller, const outcome &seen,
                                 expected_errors &errors) const
{
    switch (made.what) {
    case function::acquire:
    case function::acquire_token:
    case function::pause:
    case function::run:
        return judge_acquire(made, caller, seen, errors);
    case function::extend:
    case function::extend_token:
    case function::release:
    case function::release_token:
        return judge_change(made, caller, seen);
    case function::guard:
    case function::guard_token:
        return judge_guard(made, caller, seen, errors);
    case function::complete:
    case function::complete_token:
        return judge_complete(made, caller, seen, errors);
    case function::force_release:
        return judge_force(made, seen);
    default:
        return judge_resume(made, seen);
    }
}
