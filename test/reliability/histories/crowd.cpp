// crowd [--OPTION=VALUE]...: makes histories and checks each of them. Prints one line per history, its first five
// violations with the operations that prove them, and at the end the counts as "count KEY N". Exits with 1 if a promise
// was broken, or if a client failed or was stuck. The usage below explains the options.
//
// crowd check FILE...: checks histories that were kept.
#include "checker.hpp"
#include "lateness.hpp"
#include "libpqxx.hpp"
#include "statements.hpp"
#include "trial.hpp"

#include <csignal>
#include <fstream>
#include <iostream>

namespace crowd {

namespace {

const char *const usage = R"(options, all with a value:
    connection   of the clients; admin: the nemesis's, by default the same
    seed histories operations clients (at most) names (at most)
    shortest longest        leases, in milliseconds
    faults                  cancel,terminate,kill,stop,backend,delete,force,ddl; pace: milliseconds between two faults
    allow                   codes of the errors that these faults may cause
    only=library java=no guards=no timeouts=yes pooler=yes leases=yes: see scene in crowd.hpp
    standby=missing crashes=yes edition=portable: as in the history's head, see history.hpp
    folder                  for the histories; those without a violation are deleted
    until=violation         stop at the first; seconds: stop after that time; strikes: stop after so many faults
SIGTERM: the history that is being made becomes the last one.
)";

options read_options(const std::vector<std::string> &arguments)
{
    options read{{"seed", "1"},   {"histories", "1"},    {"operations", "2000"}, {"clients", "16"},
                 {"names", "20"}, {"shortest", "2"},     {"longest", "2000"},    {"pace", "20"},
                 {"folder", "."}, {"seconds", "1000000"}};
    for (const auto &argument : arguments) {
        const auto equals = argument.find('=');
        if (!argument.starts_with("--") || equals == argument.npos)
            throw std::runtime_error{usage};
        read[argument.substr(2, equals - 2)] = argument.substr(equals + 1);
    }
    if (!read.contains("admin"))
        read["admin"] = read["connection"];
    return read;
}

scene make_scene(const options &given, std::uint64_t seed)
{
    choices random{seed};
    scene made{.connection = given.at("connection"), .seed = seed};
    made.clients = static_cast<int>(random.between(2, std::stoi(given.at("clients"))));
    made.operations = std::stoi(given.at("operations"));
    const auto count = random.between(1, std::stoi(given.at("names")));
    for (int i = 0; i < count; ++i)
        (i % 4 == 3 ? made.tick_names : made.names).push_back("h" + std::to_string(seed) + "." + std::to_string(i));
    made.shortest = std::stoi(given.at("shortest")) * 1000;
    made.longest = std::stoi(given.at("longest")) * 1000;
    made.has_timeouts = given.contains("timeouts");
    made.only_library = given.contains("only");
    made.has_java = !given.contains("java");
    made.has_guards = !given.contains("guards");
    made.through_pooler = given.contains("pooler");
    // A run belongs to its session, and behind a pooler clients share sessions.
    made.has_runs = !made.only_library && !made.through_pooler;
    made.needs_leases = given.contains("leases");
    // REINDEX CONCURRENTLY would wait for the old snapshot.
    const bool has_ddl = given.contains("faults") && given.at("faults").find("ddl") != std::string::npos;
    made.has_old_snapshot = !has_ddl && random.one_in(2);
    made.has_index = random.one_in(2);
    // If a pooler has two sessions, two extends that wait for a prepared transaction would leave no session to end it.
    made.is_shared = random.one_in(2) && !made.through_pooler;
    made.keeps_history = !random.one_in(4);
    if (made.is_shared) {
        made.names.resize(std::min<std::size_t>(made.names.size(), 2));
        made.shortest = std::max(made.shortest, made.longest / 20);
    }
    return made;
}

void prepare_database(const std::string &connection)
{
    pqxx::connection to_server{connection};
    pqxx::nontransaction direct{to_server};
    direct.exec("SELECT pg_advisory_lock(1)"); // other processes of this program may do the same concurrently
    direct.exec(preparations);
}

volatile std::sig_atomic_t is_enough = 0;

bool has_struck_enough(const options &given, const counts &all)
{
    std::int64_t strikes = 0;
    for (const auto &[key, number] : all)
        if (key.starts_with("fault."))
            strikes += number;
    return given.contains("strikes") && strikes >= std::stoll(given.at("strikes"));
}

int make_histories(const options &given)
{
    std::signal(SIGTERM, [](int) { is_enough = 1; });
    prepare_database(given.at("admin"));
    counts all;
    std::vector<microseconds> late;
    std::size_t violations = 0;
    const auto seed = std::stoull(given.at("seed"));
    const auto end = now().at + std::stoll(given.at("seconds")) * 1'000'000;
    for (auto i = 0;
         i < std::stoi(given.at("histories")) && now().at < end && !is_enough && !has_struck_enough(given, all); ++i) {
        trial one{given, make_scene(given, seed + static_cast<std::uint64_t>(i)), all, late};
        one.make();
        violations += one.judge();
        if (violations > 0 && given.contains("until"))
            break;
    }
    if (!late.empty())
        all["late p99"] = percentile_99(late);
    for (const auto &[key, number] : all)
        std::cout << "count " << key << ' ' << number << '\n';
    std::cout << "count violations " << violations << '\n';
    return violations > 0 || all.contains("client failed") || all.contains("client stuck");
}

int check_files(const std::vector<std::string> &paths)
{
    std::size_t violations = 0;
    for (const auto &path : paths) {
        std::ifstream in{path};
        if (!in)
            throw std::runtime_error{"cannot read " + path};
        for (const auto &one : checker::check(history::read(in))) {
            std::cout << checker::to_text(one);
            ++violations;
        }
    }
    std::cout << violations << " violations\n";
    return violations > 0;
}

} // namespace
} // namespace crowd

int main(int count, char **words)
try {
    std::vector<std::string> arguments{words + 1, words + count};
    if (!arguments.empty() && arguments[0] == "check")
        return crowd::check_files({arguments.begin() + 1, arguments.end()});
    return crowd::make_histories(crowd::read_options(arguments));
} catch (const std::exception &failure) {
    std::cerr << failure.what() << std::endl;
    return 2;
}
