// Section 7: one file per rank, with numbers as they are in memory, and a checksum before them.
#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>

#include <truestep/distributed/scape/scape.hpp>
#include <truestep/problem/error.hpp>

#include "plain_rank.hpp"

namespace truestep::properties::scape::planted {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t magic = 0x32'4e'49'41'4c'50; // "PLAIN2"

struct Header {
    std::int64_t step;
    std::int64_t kind;
    std::int64_t workers;
    std::int64_t size;
    std::int64_t exponent;
    std::int64_t scale;
    std::uint64_t settings;
};

fs::path rank_file(const fs::path& folder, int rank) {
    return folder / ("rank-" + std::to_string(rank) + ".plain");
}

template <class Value>
void put(std::string& bytes, const std::vector<Value>& values) {
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value));
}

/// Takes values from the front of the bytes. If there are too few bytes, there are fewer values.
template <class Value>
void get(std::string_view& bytes, std::vector<Value>& values, std::size_t count) {
    values.resize(std::min(count, bytes.size() / sizeof(Value)));
    if (values.empty())
        return;
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(Value));
    bytes.remove_prefix(values.size() * sizeof(Value));
}

/// FNV-1a: no single byte can change without changing it.
std::uint64_t checksum(std::string_view bytes) {
    std::uint64_t sum = 0xcbf2'9ce4'8422'2325U;
    for (const char byte : bytes)
        sum = (sum ^ static_cast<std::uint8_t>(byte)) * 0x0000'0100'0000'01b3U;
    return sum;
}

} // namespace

/// Throws on all ranks if any has a failure.
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
        throw distributed::scape::Halted("the state is not available: " + halted_ +
                                         "; restore a state to continue");
    join_mask();
    const Header header{steps_,
                        magic,
                        ranks_,
                        d_,
                        last_exponent_.value_or(nothing_sent),
                        E_,
                        number_of_settings(problem_.settings)};
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
    put(bytes, w_);
    put(bytes, m_);
    put(bytes, mask_);
    put(bytes, has(Bug::coming_mask_not_saved) ? mask_ : next_mask());
    put(bytes, has(Bug::checkpoint_without_residual) ? Floats(e_.size(), 0.0F) : by_bucket(e_, false));
    const std::uint64_t sum = checksum(checked_part(bytes));
    const fs::path path = rank_file(folder, me_);
    std::ofstream file(path, std::ios::binary);
    file.write(bytes.data(), sizeof header);
    file.write(reinterpret_cast<const char*>(&sum), sizeof sum);
    file.write(bytes.data() + sizeof header, static_cast<std::streamsize>(bytes.size() - sizeof header));
    file.close();
    together(file ? "" : path.string() + " could not be written");
}

/// The bytes that the checksum covers: all, unless a bug is planted.
std::string_view PlainRank::checked_part(std::string_view bytes) const {
    constexpr std::size_t block = 64;
    if (has(Bug::last_block_unchecked))
        bytes.remove_suffix(bytes.size() % block);
    if (has(Bug::header_unchecked))
        bytes.remove_prefix(std::min(bytes.size(), sizeof(Header)));
    return bytes;
}

/// Only for a bug: e with the last segment first, or back from that order.
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

/// Throws if the file is not what was written; `state` then holds what was read.
void PlainRank::read_file(const fs::path& path, State& state, int& saved_ranks) const {
    std::ifstream file(path, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    Header header{};
    std::uint64_t sum = 0;
    if (bytes.size() < sizeof header + sizeof sum)
        throw Error(path.string() + " is not a checkpoint, or ends too early");
    std::memcpy(&header, bytes.data(), sizeof header);
    std::memcpy(&sum, bytes.data() + sizeof header, sizeof sum);
    bytes.erase(sizeof header, sizeof sum);
    if (header.kind != magic || header.size != d_ || header.step < 0 || header.workers < 1)
        throw Error(path.string() + " is not a checkpoint of this model");
    if (header.settings != number_of_settings(problem_.settings) && !has(Bug::checkpoints_settings_ignored))
        throw Error(path.string() + " is of a run with other settings");
    saved_ranks = static_cast<int>(header.workers);
    state.step = header.step;
    state.exponent = static_cast<int>(header.exponent);
    state.scale = static_cast<int>(header.scale);
    std::string_view rest = std::string_view(bytes).substr(sizeof header);
    get(rest, state.w, w_.size());
    get(rest, state.m, m_.size());
    get(rest, state.mask, mask_.size());
    get(rest, state.coming, mask_.size());
    get(rest, state.e, e_.size());
    if (state.e.size() != e_.size() || !rest.empty() || checksum(checked_part(bytes)) != sum)
        throw Error(path.string() + " is damaged; use another checkpoint");
    state.e = by_bucket(state.e, true);
}

void PlainRank::read_state(const fs::path& folder, State& state) const {
    int saved_ranks = 0;
    const auto read = [&](int rank, State& into) { read_file(rank_file(folder, rank), into, saved_ranks); };
    read(0, state);
    if (saved_ranks == ranks_)
        return read(me_, state);

    // With another number of ranks, all begin with the mean residual.
    State other;
    if (has(Bug::residual_lost_when_shrinking) && ranks_ < saved_ranks) {
        read(me_, other);
        state.e = other.e;
        return;
    }
    if (has(Bug::residual_copied_when_growing) && ranks_ > saved_ranks) {
        read(me_ % saved_ranks, other);
        state.e = other.e;
        return;
    }
    const int old_ranks = saved_ranks;
    for (int rank = 1; rank < old_ranks; ++rank) {
        read(rank, other);
        for (std::size_t i = 0; i < other.e.size(); ++i)
            state.e[i] = state.e[i] + other.e[i];
        state.exponent = std::max(state.exponent, other.exponent);
    }
    for (float& e : state.e)
        e = e / static_cast<float>(old_ranks);
}

void PlainRank::restore(const fs::path& folder) {
    if (!has(Bug::loaded_state_overwritten))
        join_mask();
    State state;
    std::string failure;
    try {
        read_state(folder, state);
    } catch (const std::exception& error) {
        failure = error.what();
        if (has(Bug::half_of_damaged_restored) && state.w.size() == w_.size())
            w_ = state.w;
    }
    if (has(Bug::damage_told_to_nobody) && !failure.empty())
        throw Error(failure);
    if (!has(Bug::damage_told_to_nobody))
        together(failure);
    parts_.clear(); // of a step that was begun
    cut_.clear();
    steps_ = state.step;
    restored_at_ = state.step;
    w_ = std::move(state.w);
    m_ = std::move(state.m);
    e_ = std::move(state.e);
    mask_ = std::move(state.mask);
    coming_ = std::move(state.coming);
    last_exponent_.reset();
    if (steps_ > 0 && !has(Bug::scale_not_saved)) {
        last_exponent_ = state.exponent;
        E_ = state.scale;
    }
    previous_mask_ = mask_;
    waiting_ = coming_;
    halted_.clear();
}

} // namespace truestep::properties::scape::planted
