// A device that is the host: blocks run one after the other, timed by the thread's clock, which
// stops while another program has the core.
#include <algorithm>
#include <cstring>
#include <ctime>

#include <truestep/distributed/in_process.hpp>
#include <truestep/gpu/communicators.hpp>
#include <truestep/gpu/scape/block_backend.hpp>

#include "gpu/backend.hpp"
#include "gpu/device.hpp"

namespace truestep::gpu::bench {

template <class Algorithm>
void run_blocks(Index blocks, const typename Algorithm::Arguments& arguments, void*) {
    static ThreadOrders orders(64, 1);
    typename Algorithm::Shared shared;
    for (Index index = 0; index < blocks; ++index) {
        HostBlock block(index, orders);
        Algorithm::run(block, shared, arguments);
    }
}
template void run_blocks<Fill>(Index, const Fill::Arguments&, void*);
template void run_blocks<Read>(Index, const Read::Arguments&, void*);
template void run_blocks<AdamS>(Index, const AdamS::Arguments&, void*);
template void run_blocks<AdamW>(Index, const AdamW::Arguments&, void*);

Stream::Stream(int) {}
Stream::~Stream() = default;
void Stream::wait() const {}
void Stream::copy(void* to, const void* from, std::size_t bytes) const {
    if (bytes > 0)
        std::memcpy(to, from, bytes);
}
void Stream::clear(float* values, Index size) const {
    std::fill_n(values, size, 0.0F);
}

Floats::Floats(Index size) : values_(new float[static_cast<std::size_t>(size)]) {}
Floats::~Floats() {
    delete[] values_;
}

struct Timer::Clock {
    std::vector<double> events;
};
Timer::Timer(const Stream& stream, int) : stream_(stream), clock_(std::make_unique<Clock>()) {}
Timer::~Timer() = default;
void Timer::begin(std::vector<double>& into) {
    samples_.push_back({&into, clock_->events.size(), clock_->events.size()});
    record();
}
void Timer::record() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    clock_->events.push_back(static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec));
    samples_.back().last = clock_->events.size();
}
void Timer::collect() {
    stream_.wait();
    for (const Sample& sample : samples_) {
        double seconds = 0.0;
        for (std::size_t event = sample.first; event + 1 < sample.last; event += 2)
            seconds += clock_->events[event + 1] - clock_->events[event];
        sample.into->push_back(seconds);
    }
    samples_.clear();
    clock_->events.clear();
}

std::size_t free_memory() {
    return std::size_t{1} << 24U;
}
std::size_t cache_bytes(int) {
    return std::size_t{1} << 18U;
}
std::vector<std::pair<std::string, std::string>> environment_of(int) {
    return {{"device", "the host"}};
}

constexpr scape::BlockOptions at_once{.seed = 0, .exchange = Exchange::device};

std::unique_ptr<distributed::scape::Backend>
make_backend(const problem::Problem& problem, std::span<const float> parameters, int, const Stream&) {
    return scape::make_block_backend(problem, parameters, at_once);
}
SingleRank make_alone(const problem::Problem& problem, std::span<const float> parameters, int, bool) {
    const HostStream stream = scape::make_block_stream(at_once);
    SingleRank alone;
    alone.ranks = distributed::InProcessGroup(1).communicator(0);
    alone.communicator = make_block_communicator(*alone.ranks, stream);
    alone.backend = scape::make_block_backend(problem, parameters, at_once, stream);
    return alone;
}

} // namespace truestep::gpu::bench
