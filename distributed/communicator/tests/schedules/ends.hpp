#pragma once

#include <array>
#include <initializer_list>
#include <string>

#include "exchanges.hpp"

/// What scenarios of both kinds need.
namespace truestep::distributed::model {

/// Threads that wait for each other without a communicator.
class Crowd {
  public:
    void come_and_wait_for(std::size_t others) {
        std::unique_lock lock(mutex_);
        ++come_;
        changed_.notify_all();
        changed_.wait(lock, [&] { return come_ >= others; });
    }

  private:
    Mutex mutex_;
    ConditionVariable changed_;
    Plain<std::size_t> come_{0};
};

/// How an execution that may fail ended: the errors of each rank, and of the caller.
struct Ends {
    std::array<std::string, ranks> of_rank;
    std::string of_all;

    /// Every rank with an error got this text, and the caller too.
    void expect_all(const std::string& text) const {
        bool told = false;
        for (const std::string& end : of_rank) {
            expect(end == text || end.empty(), "a rank was told: " + end + "; not: " + text);
            told = told || !end.empty();
        }
        expect(of_all == (told ? text : ""), "the caller was told: " + of_all + "; not: " + text);
    }

    /// These ranks cannot have ended well.
    void expect_told(std::initializer_list<std::size_t> to_be_told) const {
        for (const std::size_t rank : to_be_told)
            expect(!of_rank[rank].empty(), "a rank that could not go on was told nothing");
    }
};

inline void expect_no_deadline() {
    expect(Scheduler::now().deadlines() == 0, "a thread slept until its deadline");
}

} // namespace truestep::distributed::model
