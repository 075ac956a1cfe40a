#pragma once

#include <cstddef>
#include <cstdint>

#include <truestep/problem/layout.hpp>

namespace truestep::distributed::host {

/// Room for a selection's candidates. It is reserved once, and takes memory only for what has been
/// written since the last give_back().
class CandidateRoom {
  public:
    CandidateRoom() = default;
    CandidateRoom(CandidateRoom&& other) noexcept;
    CandidateRoom& operator=(CandidateRoom&& other) noexcept;
    CandidateRoom(const CandidateRoom&) = delete;
    CandidateRoom& operator=(const CandidateRoom&) = delete;
    ~CandidateRoom();

    /// Makes room for `wanted` candidates; growing loses the contents. Throws std::bad_alloc.
    void make(problem::Index wanted);
    /// Returns the memory to the system; the contents are lost.
    void give_back() noexcept;

    [[nodiscard]] std::int32_t* scores() const { return scores_; }
    [[nodiscard]] std::uint32_t* positions() const { return positions_; }

  private:
    void let_go() noexcept;
    [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(size_) * each; }

    static constexpr std::size_t each = sizeof(std::int32_t) + sizeof(std::uint32_t);
    std::int32_t* scores_ = nullptr; ///< followed by the positions
    std::uint32_t* positions_ = nullptr;
    problem::Index size_ = 0;
};

} // namespace truestep::distributed::host
