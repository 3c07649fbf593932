// crowd [--OPTION=VALUE]...: makes histories and checks each. Prints a line a history, what is wrong with its proof,
// and at the end counts, "count KEY N" each. Exits with 1 if a promise was broken. See usage below. crowd check
// FILE...: checks what was written down before.
#include "checker.hpp"
#include "libpqxx.hpp"
#include "nemesis.hpp"
#include "statements.hpp"

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <iostream>
#include <sstream>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace crowd {

namespace {

using history::maker;
using history::result;

using options = std::map<std::string, std::string>;

char const *const usage = R"(options, all with a value:
    connection   of the clients; admin: of the nemesis, by default the same
    seed histories operations clients (at most) names (at most)
    shortest longest        leases, in milliseconds
    faults                  cancel,terminate,kill,stop,backend,delete,ddl; pace: milliseconds between two
    allow                   codes of errors that these faults give
    only=library java=no guards=no timeouts=yes pooler=yes leases=yes
    standby=missing crashes=yes: as in the history's head
    folder                  for histories; those that are good are deleted
    until=violation         stop at the first; seconds: stop after that time; strikes: stop after so many faults
SIGTERM: the history that is being made is the last.
)";

options read_options(std::vector<std::string> const &arguments)
{
    options read{{"seed", "1"},   {"histories", "1"},    {"operations", "2000"}, {"clients", "16"},
                 {"names", "20"}, {"shortest", "2"},     {"longest", "2000"},    {"pace", "20"},
                 {"folder", "."}, {"seconds", "1000000"}};
    for (auto const &argument : arguments) {
        auto const equals = argument.find('=');
        if (!argument.starts_with("--") || equals == argument.npos)
            throw std::runtime_error{usage};
        read[argument.substr(2, equals - 2)] = argument.substr(equals + 1);
    }
    if (!read.contains("admin"))
        read["admin"] = read["connection"];
    return read;
}

std::vector<std::string> list(std::string const &text)
{
    std::vector<std::string> parts;
    std::istringstream in{text};
    for (std::string part; std::getline(in, part, ',');)
        parts.push_back(part);
    return parts;
}

scene make_scene(options const &given, std::uint64_t seed)
{
    choices random{seed};
    scene made{.connection = given.at("connection"), .seed = seed};
    made.clients = static_cast<int>(random.between(2, std::stoi(given.at("clients"))));
    made.operations = std::stoi(given.at("operations"));
    auto const count = random.between(1, std::stoi(given.at("names")));
    for (int i = 0; i < count; ++i)
        (i % 4 == 3 ? made.tick_names : made.names).push_back("h" + std::to_string(seed) + "." + std::to_string(i));
    made.shortest = std::stoi(given.at("shortest")) * 1000;
    made.longest = std::stoi(given.at("longest")) * 1000;
    // A token that is ahead of the clock is not outgrown when its row is deleted.
    made.has_ticks_ahead = !given.contains("faults") || given.at("faults").find("ddl") == std::string::npos;
    made.has_timeouts = given.contains("timeouts");
    made.only_library = given.contains("only");
    made.has_java = !given.contains("java");
    made.has_guards = !given.contains("guards");
    made.through_pooler = given.contains("pooler");
    made.needs_leases = given.contains("leases");
    return made;
}

maker kind_of_client(scene const &scene, int number)
{
    if (scene.only_library)
        return maker::library;
    if (scene.through_pooler)
        return number % 3 == 0 ? maker::library : maker::token;
    constexpr std::array kinds{maker::token,   maker::session, maker::java, maker::library,
                               maker::session, maker::token,   maker::java};
    auto const kind = kinds.at(static_cast<std::size_t>(number) % kinds.size());
    return kind == maker::java && !scene.has_java ? maker::token : kind;
}

// One history: its file, its processes.
class performance {
public:
    performance(options const &given, std::uint64_t seed, counts &all)
        : given_{given}, scene_{make_scene(given, seed)}, counts_{all}, path_{given.at("folder") + "/" +
                                                                              std::to_string(seed) + ".history"},
          file_{::open(path_.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_APPEND, 0644)}, shared_{map_tally()}
    {
        if (file_ < 0)
            throw std::runtime_error{"cannot write " + path_};
        history::record const made{.allowed = list(given.contains("allow") ? given.at("allow") : ""),
                                   .standby_missing = given.contains("standby"),
                                   .has_crashes = given.contains("crashes")};
        auto const head = history::head_line(made, std::to_string(seed), scene_.clients) + '\n';
        if (::write(file_, head.data(), head.size()) < 0)
            throw std::runtime_error{"cannot write " + path_};
        shared_->left = scene_.operations;
    }
    ~performance()
    {
        ::close(file_);
        ::munmap(shared_, sizeof(tally));
    }
    performance(performance const &) = delete;
    performance &operator=(performance const &) = delete;

    void play()
    {
        recorder own{file_, *shared_, 0};
        {
            nemesis fate{
                given_.at("admin"), list(given_.contains("faults") ? given_.at("faults") : ""), scene_, own, counts_,
                scene_.seed};
            for (int i = 0; i < scene_.clients; ++i)
                start_client();
            watch(fate);
        }
        say_goodbye();
        final_look(own);
    }

    // How many promises were broken.
    std::size_t judge()
    {
        std::ifstream in{path_};
        auto const record = history::read(in);
        count(record);
        auto const violations = checker::check(record);
        for (std::size_t i = 0; i < std::min<std::size_t>(violations.size(), 5); ++i)
            std::cout << checker::to_text(violations[i]);
        std::cout << "history " << scene_.seed << ": " << record.operations.size() << " operations, " << scene_.clients
                  << " clients, " << scene_.names.size() + scene_.tick_names.size() << " names, " << violations.size()
                  << " violations\n"
                  << std::flush;
        if (violations.empty())
            ::unlink(path_.c_str());
        return violations.size();
    }

private:
    static tally *map_tally()
    {
        void *const memory = ::mmap(nullptr, sizeof(tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            throw std::runtime_error{"no shared memory"};
        return new (memory) tally;
    }

    void start_client()
    {
        auto const number = ++started_;
        auto const process = ::fork();
        if (process < 0)
            throw std::runtime_error{"cannot fork"};
        if (process > 0) {
            clients_.push_back(process);
            return;
        }
        ::_exit(be_client(number));
    }

    int be_client(int number)
    try {
        recorder mine{file_, *shared_, number};
        auto const kind = kind_of_client(scene_, number);
        auto const seed = scene_.seed * 1000 + static_cast<std::uint64_t>(number);
        auto const one = kind == maker::library ? make_library_client(scene_, mine, seed)
                                                : make_sql_client(scene_, mine, kind, seed);
        one->run();
        return 0;
    } catch (std::exception const &failure) {
        std::cerr << "client " << number << ": " << failure.what() << std::endl;
        return 1;
    }

    // Until the clients are through. Whom the nemesis killed is replaced.
    void watch(nemesis &fate)
    {
        auto const pace = std::stoll(given_.at("pace")) * 1000;
        auto const end = now().at + 60'000'000;
        for (auto next = now().at + pace; !clients_.empty();) {
            fate.wake_who_slept_enough();
            if (now().at > end)
                shared_->left = 0;
            if (shared_->left > 0 && now().at >= next) {
                fate.strike(clients_);
                next = now().at + pace;
            }
            reap();
            if (shared_->left <= 0)
                return;
            pause(500);
        }
    }

    // Nobody has a reason to wait that long.
    void say_goodbye()
    {
        auto const end = now().at + 30'000'000;
        while (!clients_.empty() && now().at < end) {
            reap();
            pause(200);
        }
        for (auto const process : clients_) {
            ++counts_["client stuck"];
            ::kill(process, SIGKILL);
        }
        while (!clients_.empty())
            reap();
    }

    void reap()
    {
        int status = 0;
        auto const process = ::waitpid(-1, &status, WNOHANG);
        if (process <= 0)
            return;
        std::erase(clients_, process);
        bool const was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        if (was_killed && shared_->left > 0)
            start_client();
        if (!was_killed && status != 0)
            ++counts_["client failed"];
    }

    // What the rows say when all is over; by then nobody acquires any more.
    void final_look(recorder &own)
    {
        operation op{.what = history::action::look, .names = scene_.names};
        op.names.insert(op.names.end(), scene_.tick_names.begin(), scene_.tick_names.end());
        own.call(op);
        op.result = result::lost;
        for (int tries = 0; op.result == result::lost && tries < 200; ++tries)
            try {
                clean_up();
                read_rows(op);
                op.result = result::yes;
            } catch (pqxx::failure const &) {
                op.rows.clear();
                pause(50000);
            }
        own.done(op);
    }

    void read_rows(operation &op)
    {
        pqxx::connection connection{given_.at("admin")};
        pqxx::nontransaction direct{connection};
        for (auto const &row : direct.exec("SELECT name, (extract(epoch FROM locked_at) * 1000000)::bigint, "
                                           "(extract(epoch FROM lock_until) * 1000000)::bigint"
                                           " FROM shedlock WHERE name LIKE 'h" +
                                           std::to_string(scene_.seed) + ".%'"))
            op.rows.push_back({row[0].c_str(), row[1].as<microseconds>(), row[2].as<microseconds>()});
    }

    // Prepared transactions that a killed client left, as an administrator would end them.
    void clean_up()
    {
        pqxx::connection connection{given_.at("admin")};
        pqxx::nontransaction direct{connection};
        for (auto const &row :
             direct.exec("SELECT gid FROM pg_prepared_xacts WHERE gid LIKE '" + std::to_string(scene_.seed) + ".%'")) {
            direct.exec("ROLLBACK PREPARED '" + std::string{row[0].c_str()} + "'");
            ++counts_["prepared transaction left over"];
        }
    }

    void count(history::record const &record)
    {
        constexpr std::array makers{"session", "token", "java", "library"};
        ++counts_["histories"];
        for (auto const &op : record.operations) {
            ++counts_["operations"];
            ++counts_[std::string{makers.at(static_cast<std::size_t>(op.by))} + ' ' + history::to_text(op.what) + ' ' +
                      history::to_text(op.result)];
            ++counts_[std::string{"by "} + makers.at(static_cast<std::size_t>(op.by))];
            if (op.what == history::action::acquire && op.result == result::yes)
                ++counts_["granted"];
            if (op.result == result::none)
                ++counts_["killed in mid-operation"];
            if (op.result == result::lost)
                ++counts_["lost in mid-operation"];
            if (!op.state.empty())
                ++counts_["state " + op.state];
        }
    }

    options const &given_;
    scene const scene_;
    counts &counts_;
    std::string const path_;
    int const file_;
    tally *const shared_;
    int started_ = 0;
    std::vector<pid_t> clients_;
};

void prepare_database(std::string const &connection)
{
    pqxx::connection to_server{connection};
    pqxx::nontransaction direct{to_server};
    direct.exec(preparations);
}

volatile std::sig_atomic_t is_enough = 0;

bool has_struck_enough(options const &given, counts const &all)
{
    std::int64_t strikes = 0;
    for (auto const &[key, number] : all)
        if (key.starts_with("fault."))
            strikes += number;
    return given.contains("strikes") && strikes >= std::stoll(given.at("strikes"));
}

int make_histories(options const &given)
{
    std::signal(SIGTERM, [](int) { is_enough = 1; });
    prepare_database(given.at("admin"));
    counts all;
    std::size_t violations = 0;
    auto const seed = std::stoull(given.at("seed"));
    auto const end = now().at + std::stoll(given.at("seconds")) * 1'000'000;
    for (auto i = 0;
         i < std::stoi(given.at("histories")) && now().at < end && !is_enough && !has_struck_enough(given, all); ++i) {
        performance one{given, seed + static_cast<std::uint64_t>(i), all};
        one.play();
        violations += one.judge();
        if (violations > 0 && given.contains("until"))
            break;
    }
    for (auto const &[key, number] : all)
        std::cout << "count " << key << ' ' << number << '\n';
    std::cout << "count violations " << violations << '\n';
    return violations > 0 || all.contains("client failed") || all.contains("client stuck");
}

int check_files(std::vector<std::string> const &paths)
{
    std::size_t violations = 0;
    for (auto const &path : paths) {
        std::ifstream in{path};
        for (auto const &one : checker::check(history::read(in))) {
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
} catch (std::exception const &failure) {
    std::cerr << failure.what() << std::endl;
    return 2;
}
