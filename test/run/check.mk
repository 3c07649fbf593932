# The parts of "make check". test/run/check runs several at a time, because most of them wait, for servers to start or for time to
# pass. test/run/part runs one, and prints how long it took. A part waits only for builds. make takes the parts in
# the order of this list. First are those that need the longest chain of builds, and those that take long. Builds have
# priority, because most parts wait for them.
built = @test/run/part $@
part = @nice -n 5 test/run/part $@
cores := $(shell nproc)
done = && echo "ok - built, no warnings"
server = test/run/with-server
# The files are tried three at a time, so the longest one must not begin last.
longest_first = $(shell ls -S $(1))

clients = client_address_0 client_address_1 client_pooled client_portable pqxx pqxx_pooled pqxx_portable client_thread tool tool_portable
shipped = installed dist exports
parts = faults portable_faults taps $(clients) types older extension_tests asserted portable_tests languages languages_portable rules planted docs monitoring memory pairs $(shipped)
all: $(parts)
quick: rules extension_tests
.PHONY: all quick extension client programs thread $(parts)
.DEFAULT:
	@echo "There is no part $@. The parts: quick $(parts)"; exit 2
# A race that waits for longer than this many seconds counts as hung.
export PGISOLATIONTIMEOUT = 360

# What is built, in the order in which it is waited for. CMake compiles several files as one (CMAKE_UNITY_BUILD), because most of the
# time goes into what they all include.
extension:
	$(built) 'g++: extension' sh -c 'CXXFLAGS=-Werror make -j$(cores) with_llvm=no $(done)'
client:
	$(built) 'g++: client library, tool' sh -c 'cmake -S . -B build -DSHEDLOCK_BUILD_TESTS=ON -DCMAKE_UNITY_BUILD=ON && cmake --build build --parallel $(cores) --target shedlock_tool client_test client_test_address pqxx_test types_test tool_test $(done)'
programs: | client extension
	$(built) 'g++: programs of the tests' sh -c 'cmake --build build --parallel $(cores) $(done)'
thread: | programs
	$(built) 'g++: ThreadSanitizer' test/run/sanitized

# The extension. Races are run even if a regression file has failed. A statement that hangs is cancelled.
extension_tests: | extension
	$(part) 'SQL functions and races (pg_regress, isolation tester)' $(server) -o statement_timeout=5min sh -c 'for kind in ISOLATION REGRESS; do \
	  make --no-print-directory installcheck $$kind= || { cat regression.diffs; failed=yes; }; done; [ -z "$$failed" ]'
# On a server with assertions, where make check-assert has left one.
asserting := $(wildcard build/assert/$(shell pg_config --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')/bin/postgres)
asserted: | extension
	$(if $(asserting),$(part) 'SQL functions and races with assertions' nice test/reliability/instrumented/assert --short)
taps: | client extension
	$(part) 'crashes, standbys, dumps, crowds (PostgreSQL::Test)' test/run/prove $(call longest_first,test/tap/*.pl)
portable_tests: | extension
	$(part) 'SQL functions and races on the portable edition' test/portable/check

# The client and the tool: against a server with the extension, through a pooler, on the portable edition (without the tests to
# which the edition makes no difference, and those that make their own database), and with sanitizers, which report in the output.
# ThreadSanitizer does not get along with every kernel's randomised addresses.
client_test = build/test/client/client_test
client_address_0 client_address_1: | client extension
	$(part) 'C++ client with AddressSanitizer, half $(@:client_address_%=%)' env GTEST_TOTAL_SHARDS=2 \
	  GTEST_SHARD_INDEX=$(@:client_address_%=%) $(server) $(client_test)_address
fixed_addresses := $(shell setarch -R true 2>/dev/null && echo setarch -R)
client_thread: | thread
	$(part) "C++ client's threads with ThreadSanitizer" $(server) $(fixed_addresses) build/thread/test/client/client_test
client_pooled: | client extension
	$(part) 'C++ client through PgBouncer' $(server) test/run/with-pooler $(client_test)
client_portable: | client extension
	$(part) 'C++ client on the portable edition' $(server) test/run/with-portable $(client_test) \
	  --gtest_filter=-edition_test.*:fork_test.*:held_lease_test.*:literal_test.*:thread_test.*:timer_test.*:exit_test.*:limit_test.*:limited_test.*:source_test.*:opening_test.*:backoff_test.*:text_test.*
pqxx_test = build/test/client/pqxx_test
pqxx: | client extension
	$(part) 'pqxx.hpp' $(server) $(pqxx_test)
types: | client extension
	$(part) 'types.hpp, headers in strict builds' sh -c '$(server) build/test/client/types_test && test/headers'
pqxx_pooled: | client extension
	$(part) 'pqxx.hpp through PgBouncer' $(server) test/run/with-pooler $(pqxx_test) --gtest_filter=-*settings_of_the_connection:*search_path
pqxx_portable: | client extension
	$(part) 'pqxx.hpp on the portable edition' $(server) test/run/with-portable $(pqxx_test)
tool: | client extension
	$(part) 'the tool' $(server) build/test/tool/tool_test
tool_portable: | client extension
	$(part) 'the tool on the portable edition' $(server) test/run/with-portable build/test/tool/tool_test \
	  --gtest_filter=-signal.*:killed_tool.*:process_1.*:terminal.*:message.*:help.*:help_test.*:instant.*:history_rules.*:history_database.*:outage.*:dsn_command.*:after_the_work.*:crowd.*:failure.*:lost_lease.*

older: | client extension
	$(part) 'client and tool with older functions' test/older

# Rules, random histories, faults, pairs of calls, and bugs that are planted to be found.
rules: | programs
	$(part) 'rules, checkers (GoogleTest)' ctest --test-dir build --output-on-failure
memory: | programs
	$(part) 'memory runs out (PostgreSQL::Test)' test/run/prove test/reliability/memory
faults: | programs
	$(part) 'random histories, faults (PostgreSQL::Test)' \
	  test/run/prove $(filter-out %/memory.pl,$(call longest_first,test/reliability/*.pl test/reliability/*/*.pl))
portable_faults: | programs
	$(part) 'histories, crashes, effects and completions on the portable edition' env SHEDLOCK_EDITION=portable \
	  test/run/prove $(addprefix test/reliability/,histories/histories.pl faults/crashes.pl faults/effects.pl faults/completions.pl)
pairs: | programs
	$(part) 'pairs of calls, one of them stopped at each pause point' test/pairs/check
planted: | programs
	$(part) 'planted bugs' test/reliability/planted/check guard_without_lock

# What is shipped.
exports: | programs
	$(part) 'symbols of the libraries' sh -c 'make --no-print-directory check-abi && test/exports'
installed: | programs
	$(part) 'installed: CMake, pkg-config, docs/examples' test/installed
dist: | programs
	$(if $(wildcard .git),$(part) 'archives of a release (built by clang)' dev/dist)
languages: | programs
	$(part) 'docs/examples in other languages' test/languages
languages_portable: | programs
	$(part) 'docs/examples in other languages on the portable edition' test/languages portable/shedlock.sql
monitoring:
	$(part) 'alert rules (promtool)' test/monitoring/rules
docs: | programs
	$(part) 'examples and pictures in README.md and docs/' sh -c 'test/docs && test/pictures'
