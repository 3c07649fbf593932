include("${CMAKE_CURRENT_LIST_DIR}/shedlock-targets.cmake")

# Only shedlock::static needs these, so where they are missing shedlock::shedlock is found all the same.
find_package(Threads QUIET)
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(libpq QUIET IMPORTED_TARGET libpq)
endif()
