// Provides C functions for communicators: on the caller's own exchanges, or on threads.
#include "communicator.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/problem/timeline.hpp>

#include "started_action.hpp"

namespace truestep::abi {

namespace {

using distributed::Exchange;
using distributed::Traffic;

class CalledExchange final : public Exchange {
  public:
    template <class Start>
    CalledExchange(const truestep_exchanges& functions, Traffic traffic, std::uint64_t bytes,
                   const char* what, const Start& start)
        : rank_(functions.rank), traffic_(traffic), bytes_(bytes),
          called_(functions, std::string("an ") + what, "an exchange", start) {}
    void wait() override {
        problem::Span span(name(traffic_), rank_);
        span.set_bytes(bytes_);
        called_.wait();
    }

  private:
    int rank_;
    Traffic traffic_;
    std::uint64_t bytes_; ///< from others
    StartedAction<truestep_exchanges> called_;
};

/// The caller's functions as a communicator.
class CalledCommunicator final : public distributed::Communicator {
  public:
    explicit CalledCommunicator(const truestep_exchanges& functions) : functions_(functions) {}

    [[nodiscard]] int rank() const override { return functions_.rank; }
    [[nodiscard]] int size() const override { return functions_.size; }
    [[nodiscard]] std::string name() const override { return "callbacks"; }

    std::unique_ptr<Exchange> start_all_to_all(Traffic traffic, const void* send, Sizes send_sizes,
                                               void* receive, Sizes receive_sizes) override {
        return started(traffic, from_others(receive_sizes), "all-to-all", [&](void** exchange) {
            return functions_.all_to_all(functions_.self, static_cast<std::int32_t>(traffic), send,
                                         send_sizes.data(), receive, receive_sizes.data(), exchange);
        });
    }

    std::unique_ptr<Exchange> start_all_gather(Traffic traffic, const void* send, void* receive,
                                               Sizes sizes) override {
        return started(traffic, from_others(sizes), "all-gather", [&](void** exchange) {
            return functions_.all_gather(functions_.self, static_cast<std::int32_t>(traffic), send, receive,
                                         sizes.data(), exchange);
        });
    }

    std::unique_ptr<Exchange> start_reduce_scatter(Traffic traffic, const float* send, float* receive,
                                                   Sizes sizes) override {
        return started(
            traffic, sizes[static_cast<std::size_t>(rank())], "reduce-scatter", [&](void** exchange) {
                return functions_.reduce_scatter(functions_.self, static_cast<std::int32_t>(traffic), send,
                                                 receive, sizes.data(), exchange);
            });
    }

    void progress() override {
        if (functions_.progress != nullptr)
            functions_.progress(functions_.self);
    }

    // There is no callback for this: a failing rank leaves, and the caller's own exchanges notice.
    void abort(const std::string&) noexcept override {}

  private:
    template <class Start>
    std::unique_ptr<Exchange> started(Traffic traffic, std::uint64_t bytes, const char* what,
                                      const Start& start) {
        return std::make_unique<CalledExchange>(functions_, traffic, bytes, what, start);
    }
    [[nodiscard]] std::uint64_t from_others(Sizes sizes) const {
        return std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0}) -
               sizes[static_cast<std::size_t>(rank())];
    }

    truestep_exchanges functions_;
};

void check(const truestep_exchanges& exchanges) {
    check_place(exchanges, "truestep_exchanges");
    const bool complete =
        exchanges.all_to_all != nullptr && exchanges.all_gather != nullptr && exchanges.wait != nullptr;
    if (!complete)
        throw Error("truestep_exchanges: all_to_all, all_gather or wait is NULL; give all three");
}

} // namespace

extern "C" {

truestep_status truestep_communicator_create(const truestep_exchanges* exchanges,
                                             truestep_communicator** communicator) {
    return guarded([&] {
        const truestep_exchanges& functions = need(exchanges, "exchanges");
        need(communicator, "communicator");
        check(functions);
        *communicator = new truestep_communicator{std::make_shared<CalledCommunicator>(functions),
                                                  functions.reduce_scatter != nullptr};
    });
}

void truestep_communicator_destroy(truestep_communicator* communicator) {
    delete communicator;
}

truestep_status truestep_group_create(int32_t size, int64_t timeout_milliseconds, truestep_group** group) {
    return guarded([&] {
        need(group, "group");
        constexpr std::int64_t longest = 1'000'000'000'000; // the clock counts nanoseconds in 63 bits
        if (size < 1 || timeout_milliseconds < 1 || timeout_milliseconds > longest)
            throw Error("a group of " + std::to_string(size) + " ranks with a timeout of " +
                        std::to_string(timeout_milliseconds) +
                        " ms; both are at least 1, and the timeout at most " + std::to_string(longest));
        const std::chrono::milliseconds timeout(timeout_milliseconds);
        *group = new truestep_group{distributed::InProcessGroup(size, timeout),
                                    distributed::InProcessPeers(size, timeout)};
    });
}

void truestep_group_destroy(truestep_group* group) {
    delete group;
}

truestep_status truestep_group_communicator(truestep_group* group, int32_t rank,
                                            truestep_communicator** communicator) {
    return guarded([&] {
        need(group, "group");
        need(communicator, "communicator");
        *communicator =
            new truestep_communicator{place_of([&] { return group->group.communicator(rank); })};
    });
}

} // extern "C"

} // namespace truestep::abi
