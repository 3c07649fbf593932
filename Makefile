# The extension, and the project's commands.
#   make demo           shows three hosts sharing three jobs, on a throw-away server
#   make check          runs the tests; PARTS="taps docs": only these parts of test/run/check.mk
#   make quick          the quickest of them, for before a commit: rules, functions, races (half a minute once all is built)
#   make check-busy     runs them N=5 times while the machine is kept busy (test/run/check-busy says how)
#   make instructions   counts instructions per call, ours and Java's
#   make model          checks a model of the protocol with spin, exhaustively (a few minutes)
#   make check-monitoring sends every query of docs/monitoring to a real Prometheus that scrapes a real server
#   make check-schedules compares the ticks of random crontab expressions with those of two other programs from npm (a few minutes; SEED=7: other expressions)
#   make bench          measures the extension compared with its alternatives, and writes docs/benchmark.md (25 to 30 minutes)
#   make check-versions runs make check on Debian 12, Ubuntu 24.04, Debian 13, sid and experimental (SUITES="sid experimental": only these), and writes docs/compatibility.md
#   make check-citus    runs the tests of the SQL functions and the races at the coordinator of a Citus cluster, where Citus is installed
#   make deb            builds Debian packages into build/packages
#   make check-deb      builds them again, installs and uses them; SUITES="bookworm trixie sid": also on these Debians (the newest last), and runs programs built on each with the library of each
#   make rpm            builds RPM packages into build/rpm, installs them into a folder and uses them
#   make dist           writes the archives of a release into build
#   make valgrind       runs the tests of the SQL functions under memcheck (about 10 minutes)
#   make sanitize       runs the fuzzer against an extension built with UndefinedBehaviorSanitizer, and all tests of the client with ThreadSanitizer
#   make check-assert   runs the SQL functions, races and random histories on a server with assertions, and without caches (SERVER=18: of that version, from sid or experimental)
#   make torture        runs every fault for a long time, and the planted bugs; writes docs/reliability.md (TORTURE_MINUTES=20: of random histories; FAULTS="clocks crashes": only these, into build/reliability.md)
#   make, make install, make installcheck: as for any PGXS extension; PG_CONFIG= chooses the server
#
# The project's commands work on a fresh Debian with only git and make: as root they install what they need, and say so. Another user needs
# to have that installed, and is told what is missing. They start no service and make no cluster.

PG_CONFIG ?= pg_config
project_commands = packages demo check check-monitoring check-schedules quick check-busy check-unit check-versions check-citus deb check-deb rpm dist instructions bench valgrind sanitize check-assert model torture
server_build = bison flex dpkg-dev libicu-dev
tool = echo 'Compiling the command-line tool (about a minute; what the compiler says is in build.log).' && cmake -S . -B build >build.log && cmake --build build --parallel 2 --target shedlock_tool >>build.log || { cat build.log; exit 1; }

ifneq ($(filter $(project_commands),$(MAKECMDGOALS)),)
ifneq ($(filter-out $(project_commands),$(MAKECMDGOALS)),)
$(error "$(filter $(project_commands),$(MAKECMDGOALS))" cannot be combined with "$(filter-out $(project_commands),$(MAKECMDGOALS))", which is for the extension (PGXS) if it is a goal at all: call make once for each)
endif

.PHONY: $(project_commands)

packages:
	@dev/install-packages build server tests

demo:
	@dev/install-packages build server
	@$(tool)
	@dev/demo

check: packages
	@$(if $(TEST),test/run/one $(TEST),test/run/check $(PARTS))

check-busy: packages
	@test/run/check-busy $(PARTS)

check-monitoring: packages
	@$(tool)
	@$(MAKE) -s >build.log 2>&1 || { cat build.log; exit 1; }
	@test/monitoring/check

check-schedules: packages
	@command -v npm >/dev/null || dev/install-packages npm
	@$(MAKE) -s >build.log 2>&1 || { cat build.log; exit 1; }
	@test/schedules/check

quick:
	@dev/install-packages build server libgtest-dev libpqxx-dev
	@test/run/check quick

check-unit: packages
	@test/run/check rules

check-citus: packages
	@test/citus/check

check-versions:
	@dev/install-packages debootstrap
	@test/versions/check $(SUITES)

deb:
	@dev/install-packages build build-essential debhelper lintian postgresql-server-dev-all
	@debian/build

check-deb: deb
	@dev/install-packages debootstrap
	@dev/packages
	$(if $(SUITES),@test/versions/packages $(SUITES))

rpm:
	@dev/install-packages build server rpm
	@dev/rpm

dist:
	@dev/make-dist build

instructions: packages
	@dev/install-packages valgrind
	@test/bench/instructions

model:
	@dev/install-packages spin gcc
	@test/reliability/model/check

torture: packages
	@dev/install-packages $(server_build) spin patroni etcd-server
	@test/reliability/torture $(FAULTS)

bench: packages
	@dev/install-packages valgrind redis-server
	@test/bench/run

valgrind: packages
	@dev/install-packages valgrind
	@test/reliability/instrumented/valgrind

sanitize: check-unit
	@test/reliability/instrumented/sanitize
	@test/run/sanitized all >build.log || { cat build.log; exit 1; }
	@test/run/with-server $$(setarch -R true 2>/dev/null && echo setarch -R) build/thread/test/client/client_test

check-assert: check-unit
	@dev/install-packages $(server_build)
	@build/test/reliability/contain test/reliability/instrumented/assert $(SERVER)

else

MODULE_big = shedlock
SOURCES = $(sort $(wildcard extension/*.cpp))
OBJS = $(SOURCES:.cpp=.o)
version := $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" extension/shedlock.control)
EXTENSION = extension/shedlock
DATA_built = extension/shedlock--$(version).sql
DATA = $(filter-out $(DATA_built),$(sort $(wildcard extension/shedlock--*.sql)))

REGRESS = install $(filter-out install,$(patsubst sql/%.sql,%,$(sort $(wildcard sql/*.sql))))
REGRESS_OPTS = --launcher=test/run/psql
ISOLATION = $(patsubst test/specs/%.spec,%,$(sort $(wildcard test/specs/*.spec)))
ISOLATION_OPTS = --inputdir=test --outputdir=.
EXTRA_CLEAN = $(SOURCES:.cpp=.d) build build.log tmp_check

# The server is C: an error jumps over our frames, and there is no C++ runtime to count on (make check-abi).
# PostgreSQL's headers are -isystem, because they are not written for our warnings.
thin = -std=c++20 -fno-exceptions -fno-rtti -fno-threadsafe-statics -fvisibility=hidden
PG_CPPFLAGS = -isystem $(shell $(PG_CONFIG) --includedir-server) -DSHEDLOCK_VERSION='"$(version)"'
# CXXFLAGS of the environment are a package's (-ffile-prefix-map, hardening), which PGXS does not read.
PG_CXXFLAGS := $(CXXFLAGS) $(thin) -Wno-register -Wall -Wextra -Wshadow -MMD -MP

.PHONY: check-abi

PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(or $(PGXS),$(error $(PG_CONFIG) does not run: PG_CONFIG= names the server's pg_config))

# PGXS does not pass PG_CXXFLAGS to the rule for bitcode, and does not know about headers.
BITCODE_CXXFLAGS += $(thin) -Wno-register
-include $(SOURCES:.cpp=.d)
$(SOURCES:.cpp=.bc): $(wildcard extension/*.hpp)

$(DATA_built): extension/include.awk portable/shedlock.sql extension/shedlock.sql
	awk -f $^ >$@ || { rm -f $@; exit 1; }

# Looks for symbols that only the C++ runtime has. That shedlock.so can be loaded proves nothing, because the server has loaded libstdc++ for ICU.
check-abi: shedlock.so
	@! nm --dynamic --undefined-only --demangle shedlock.so | grep -v '@GLIBC_' \
	  | grep -E ' (std::|__cxa_|__gxx_|typeinfo|vtable|operator (new|delete))' || { echo 'not ok - shedlock.so needs the C++ runtime'; false; }
	@echo 'ok - shedlock.so needs no symbol of the C++ runtime'

endif
