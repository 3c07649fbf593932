// shedlock: the command-line tool.
#include "command_line.hpp"
#include "exit.hpp"
#include "text.hpp"

#include <fcntl.h>
#include <iostream>
#include <unistd.h>

namespace shedlock::tool {

namespace {

// If we were started with one of the standard files closed, a connection to the server would get its number, and
// messages for standard error would be sent there. Closed ones are opened in the wrong direction, so that using them
// is still an error; the command that we run gets them closed, as we got them.
void occupy_standard_files()
{
    for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        if (::fcntl(number, F_GETFD) < 0)
            ::open("/dev/null", (number == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
}

int main(std::vector<std::string> words)
{
    request asked;
    try {
        occupy_standard_files();
        internal::skip_preparation_for_exit();
        asked = read_command_line(std::move(words));
        const int status = asked.action(asked);
        if (!(std::cout << std::flush))
            throw error{"cannot write to standard output"};
        return status;
    } catch (const std::exception &failure) {
        say(failure.what());
        return asked.status_of_failure;
    }
}

} // namespace

} // namespace shedlock::tool

int main(int count, char **words)
{
    return shedlock::tool::main(std::vector<std::string>{words + 1, words + count});
}
