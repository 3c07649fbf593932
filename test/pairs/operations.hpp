// What is stopped, what runs meanwhile, and what stands in the table before.
#pragma once

#include "rules.hpp"

// Who does it: the session that will be stopped, or one more.
struct step {
    bool by_itself;
    std::string sql;
};

struct stopped_operation {
    std::string title; // the operation, and what it meets
    operation what;
    std::vector<step> before;
};

struct other_operation {
    std::string title;
    std::vector<operation> steps;
    std::string end; // COMMIT or ROLLBACK: the last step stays open until the stopped one has ended, or waits for it
    bool is_early = false; // its one step is open before the other operation begins, and ends when that stops
};

std::vector<stopped_operation> const &stopped_operations();
std::vector<other_operation> const &other_operations();
