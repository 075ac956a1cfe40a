// Reserves memory for a selection's candidates, and returns its pages to the system after use.
#include <truestep/distributed/candidate_room.hpp>

#include <new>
#include <utility>

#include <truestep/problem/tunable.hpp>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace truestep::distributed::host {

namespace {

void* take_pages(std::size_t bytes) {
#if defined(__linux__)
    void* const memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) // NOLINT: the system's own
        throw std::bad_alloc();
    return memory;
#else
    return ::operator new(bytes);
#endif
}

} // namespace

CandidateRoom::CandidateRoom(CandidateRoom&& other) noexcept
    : scores_(std::exchange(other.scores_, nullptr)), positions_(std::exchange(other.positions_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

CandidateRoom& CandidateRoom::operator=(CandidateRoom&& other) noexcept {
    std::swap(scores_, other.scores_);
    std::swap(positions_, other.positions_);
    std::swap(size_, other.size_);
    return *this;
}

CandidateRoom::~CandidateRoom() {
    let_go();
}

void CandidateRoom::make(problem::Index wanted) {
    if (wanted <= size_)
        return;
    let_go();
    const auto count = static_cast<std::size_t>(wanted);
    scores_ = static_cast<std::int32_t*>(take_pages(count * each));
    positions_ = reinterpret_cast<std::uint32_t*>(scores_ + count);
    size_ = wanted;
}

void CandidateRoom::give_back() noexcept {
#if defined(__linux__)
    // All threads wait during the call.
    constexpr std::size_t worth_a_call = problem::tunable<std::size_t>("worth_a_call");
    if (bytes() >= worth_a_call)
        static_cast<void>(madvise(scores_, bytes(), MADV_DONTNEED));
#else
    let_go(); // and make() takes it again
#endif
}

void CandidateRoom::let_go() noexcept {
    if (size_ == 0)
        return;
#if defined(__linux__)
    static_cast<void>(munmap(scores_, bytes()));
#else
    ::operator delete(scores_);
#endif
    scores_ = nullptr;
    positions_ = nullptr;
    size_ = 0;
}

} // namespace truestep::distributed::host
