// Section 7: one file a rank, numbers as they stand in memory.
#include <algorithm>
#include <array>
#include <fstream>

#include <scape/distributed/scape.hpp>
#include <scape/problem/error.hpp>

#include "plain_rank.hpp"

namespace scape::planted {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t magic = 0x31'4e'49'41'4c'50; // "PLAIN1"

struct Header {
    std::int64_t kind;
    std::int64_t step;
    std::int64_t workers;
    std::int64_t size;
};

fs::path rank_file(const fs::path& folder, int rank) {
    return folder / ("rank-" + std::to_string(rank) + ".plain");
}

template <class Value>
void put(std::ofstream& file, const std::vector<Value>& values) {
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(Value)));
}

template <class Value>
void get(std::ifstream& file, std::vector<Value>& values, std::size_t count) {
    values.resize(count);
    file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(count * sizeof(Value)));
}

} // namespace

/// Throws on all ranks if one has a failure to tell.
void PlainRank::together(const std::string& failure) {
    std::array<char, 400> mine{};
    failure.copy(mine.data(), mine.size() - 1);
    const auto all = distributed::gather_records(communicator_, mine);
    for (std::size_t rank = 0; rank < all.size(); ++rank)
        if (all[rank][0] != '\0')
            throw Error("rank " + std::to_string(rank) + ": " + all[rank].data());
}

void PlainRank::save(const fs::path& folder) {
    if (!halted_.empty())
        throw distributed::Halted("there is no state to save: " + halted_ + "; restore one to go on");
    join_mask();
    const fs::path path = rank_file(folder, me_);
    std::ofstream file(path, std::ios::binary);
    const Header header{magic, steps_, ranks_, d_};
    file.write(reinterpret_cast<const char*>(&header), sizeof header);
    put(file, w_);
    put(file, m_);
    put(file, has(Bug::checkpoint_without_residual) ? Floats(e_.size(), 0.0F) : by_bucket(e_, false));
    put(file, mask_);
    put(file, has(Bug::coming_mask_not_saved) ? mask_ : next_mask());
    put(file, std::vector<int>{last_exponent_.value_or(-126)});
    file.close();
    together(file ? "" : path.string() + " could not be written");
}

/// Only for a bug: e as it would stand with the last segment first, or back from that.
Floats PlainRank::by_bucket(const Floats& e, bool back) const {
    if (!has(Bug::residual_by_bucket))
        return e;
    Floats other(e.size(), 0.0F);
    std::size_t place = 0;
    for (std::size_t number = problem_.segments.size(); number > 0; --number) {
        const problem::Segment& segment = problem_.segments[number - 1];
        for (Index i = segment.begin; i < segment.end; ++i, ++place)
            (back ? other[at(i)] : other[place]) = back ? e[place] : e[at(i)];
    }
    return other;
}

PlainRank::State PlainRank::read_state(const fs::path& folder) const {
    std::int64_t saved_ranks = 0;
    const auto read = [&](int rank) {
        const fs::path path = rank_file(folder, rank);
        std::ifstream file(path, std::ios::binary);
        Header header{};
        file.read(reinterpret_cast<char*>(&header), sizeof header);
        if (!file || header.kind != magic || header.size != d_ || header.step < 0 || header.workers < 1)
            throw Error(path.string() + " is no checkpoint of this model");
        saved_ranks = header.workers;
        State state;
        state.step = header.step;
        get(file, state.w, w_.size());
        get(file, state.m, m_.size());
        get(file, state.e, e_.size());
        state.e = by_bucket(state.e, true);
        get(file, state.mask, mask_.size());
        get(file, state.coming, mask_.size());
        std::vector<int> exponent;
        get(file, exponent, 1);
        state.exponent = exponent.front();
        if (!file)
            throw Error(path.string() + " ends too early");
        return state;
    };
    State state = read(0);
    if (saved_ranks == ranks_)
        return read(me_);

    // Another number: everybody goes on from the mean residual.
    if (has(Bug::residual_lost_when_shrinking) && ranks_ < saved_ranks) {
        state.e = read(me_).e;
        return state;
    }
    if (has(Bug::residual_copied_when_growing) && ranks_ > saved_ranks) {
        state.e = read(me_ % static_cast<int>(saved_ranks)).e;
        return state;
    }
    const auto old_ranks = static_cast<int>(saved_ranks);
    for (int rank = 1; rank < old_ranks; ++rank) {
        const State other = read(rank);
        for (std::size_t i = 0; i < other.e.size(); ++i)
            state.e[i] = state.e[i] + other.e[i];
        state.exponent = std::max(state.exponent, other.exponent);
    }
    for (float& e : state.e)
        e = e / static_cast<float>(old_ranks);
    return state;
}

void PlainRank::restore(const fs::path& folder) {
    if (!has(Bug::loaded_state_overwritten))
        join_mask();
    State state;
    std::string failure;
    try {
        state = read_state(folder);
    } catch (const std::exception& error) {
        failure = error.what();
    }
    together(failure);
    steps_ = state.step;
    restored_at_ = state.step;
    w_ = std::move(state.w);
    m_ = std::move(state.m);
    e_ = std::move(state.e);
    mask_ = std::move(state.mask);
    coming_ = std::move(state.coming);
    last_exponent_.reset();
    if (steps_ > 0 && !has(Bug::scale_not_saved))
        last_exponent_ = state.exponent;
    previous_mask_ = mask_;
    waiting_ = coming_;
    halted_.clear();
}

} // namespace scape::planted
