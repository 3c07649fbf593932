// The operations that are stopped, those that run meanwhile, and the steps that prepare the table.
#pragma once

#include "verdict.hpp"

struct step {
    bool by_itself; // by the session that will be stopped, not by another one
    std::string sql;
};

struct stopped_operation {
    std::string title; // the operation, and the state of the row that it meets
    operation what;
    std::vector<step> before;
};

struct other_operation {
    std::string title;
    std::vector<operation> steps;
    // COMMIT or ROLLBACK: the last step stays open until the stopped one has ended or waits for it, and then ends like
    // this. Empty: no step stays open.
    std::string end;
    bool is_early = false; // its only step is open before the stopped operation begins, and ends while that is stopped
};

const std::vector<stopped_operation> &stopped_operations();
const std::vector<other_operation> &other_operations();
