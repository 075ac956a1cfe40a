// The vectors of dense training on a machine: the launches that correspond to host_backend.cpp, in its
// order.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <truestep/distributed/dense/rules.hpp>
#include <truestep/distributed/mapl/products.hpp>
#include <truestep/gpu/algorithms/add.hpp>
#include <truestep/gpu/dense/devices.hpp>

#include "algorithms/mean.hpp"
#include "algorithms/rules.hpp"

namespace truestep::gpu::dense {

/// One source for a device and for its host form. Vectors that travel are where the host reaches them.
template <class Machine, class Products>
class BlockBackend final : public Backend {
  public:
    BlockBackend(Machine machine, Products products)
        : machine_(std::move(machine)), products_(std::move(products)) {
        machine_.resize(flag_, 1);
        for (Floats* travels : {&sent_, &parts_, &own_, &all_})
            machine_.exchange(*travels);
        for (Halves* travels : {&own_copies_, &all_copies_})
            machine_.exchange(*travels);
    }
    BlockBackend(const BlockBackend&) = delete;
    BlockBackend& operator=(const BlockBackend&) = delete;
    /// Launched work uses memory that is about to go. An error has been reported before.
    ~BlockBackend() override {
        try {
            machine_.finish();
        } catch (...) { // NOLINT(bugprone-empty-catch)
        }
    }

    void begin(const Problem& problem, const Ownership& ownership, int rank, State& state) override {
        problem_ = &problem;
        ownership_ = &ownership;
        rank_ = rank;
        groups_ = groups_of(problem);
        size_ = layout_of(problem).size();
        const Index own = ownership.size(rank);
        for (const auto& [to, from] : {std::pair{&w_, &state.w}, {&m_, &state.m}, {&v_, &state.v}}) {
            machine_.resize(*to, static_cast<Index>(from->size()));
            machine_.upload(to->data(), from->data(), to->size());
        }
        sums_.clear();
        machine_.resize(mean_, own);
        machine_.resize(sent_, size_);
        machine_.resize(parts_, own * problem.ranks);
        machine_.resize(parameters_, size_);
        machine_.finish(); // the state goes
        for (std::vector<float>* part : {&state.w, &state.m, &state.v})
            *part = {};
        if (rounds()) {
            machine_.resize(own_copies_, own);
            machine_.resize(all_copies_, size_);
        } else {
            machine_.resize(own_, own);
        }
        machine_.resize(all_, size_);
    }

    bool add(std::span<const float> gradient, Index number, bool /*lent*/) override {
        const bool tree = problem_->order == Order::tree;
        const std::size_t level =
            tree ? static_cast<std::size_t>(std::countr_one(static_cast<std::uint64_t>(number))) : 0;
        while (sums_.size() <= level) {
            sums_.emplace_back();
            machine_.resize(sums_.back(), size_);
        }
        machine_.fill(flag_, 0);
        machine_.template run<AddGradient>(tiles(size_), {size_, machine_.gradient(gradient.data(), size_),
                                                          tree ? level == 0 : number == 0, sums_[0].data(),
                                                          flag_.data()});
        for (std::size_t i = 1; i < level; ++i)
            add_to(sums_[i - 1], sums_[i]);
        if (level > 0)
            sums_[level].swap(sums_[level - 1]);
        return !is_flagged();
    }

    const void* sum(Index count) override {
        std::size_t at = 0;
        if (problem_->order == Order::tree) {
            const auto bits = static_cast<std::uint64_t>(count);
            at = static_cast<std::size_t>(std::countr_zero(bits));
            for (std::size_t level = at + 1; level < sums_.size(); ++level)
                if ((bits >> level & 1U) != 0) {
                    add_to(sums_[at], sums_[level]);
                    at = level;
                }
        }
        float* packed = sent_.data();
        for_pieces([&](const Piece& piece) {
            machine_.fetch(packed, sums_[at].data() + piece.begin, piece.size());
            packed += piece.size();
        });
        machine_.hand_over();
        return sent_.data();
    }

    void* parts() override { return parts_.data(); }

    void make_mean(const Merges& merges, float divisor) override {
        pairs_.clear();
        for (const auto& [left, right] : merges)
            pairs_.insert(pairs_.end(), {left, right});
        const auto count = static_cast<Index>(pairs_.size());
        machine_.resize(merges_, count);
        machine_.upload(merges_.data(), pairs_.data(), count);
        machine_.template run<FoldParts>(
            tiles(mean_.size()),
            {mean_.size(), merges_.data(), count / 2, mean_.size(), divisor, parts_.data(), mean_.data()});
    }

    std::vector<double> square_sums(const GlobalNorm::Parts& stretches) override {
        stretches_.clear();
        for (const GlobalNorm::Part& part : stretches)
            stretches_.push_back({part.in_packed, part.size});
        return sums_of_stretches(mean_);
    }

    std::vector<float> values(const GlobalNorm::Parts& stretches) override {
        std::vector<float> all;
        for (const GlobalNorm::Part& part : stretches) {
            all.resize(all.size() + static_cast<std::size_t>(part.size));
            machine_.download(all.data() + all.size() - part.size, mean_.data() + part.in_packed,
                              part.size);
        }
        return all;
    }

    void scale(float factor) override {
        machine_.template run<Scale>(tiles(mean_.size()),
                                     {mean_.size(), factor, mean_.data(), mean_.data()});
    }

    void update(const std::vector<double>& rates, Index t) override {
        Index packed = 0;
        for (const Piece& piece : ownership_->pieces(rank_)) {
            const std::size_t index = groups_[piece.tensor];
            const Group& group = problem_->groups[index];
            const auto at = [packed](const Floats& of) {
                return of.size() == 0 ? nullptr : of.data() + packed;
            };
            const Vectors vectors{at(mean_), at(w_), at(m_), at(v_)};
            if (group.rule == Rule::sgd)
                sgd(group, rates[index], t, piece.size(), vectors);
            else if (is_adam(group.rule))
                adam(group, rates[index], t, piece.size(), vectors);
            else
                muon(group, rates[index], problem_->tensors[piece.tensor].shape, vectors);
            packed += piece.size();
        }
    }

    bool is_finite() override {
        machine_.fill(flag_, 0);
        for (const Floats* part : {&w_, &m_})
            machine_.template run<Finite>(tiles(part->size()), {part->size(), part->data(), flag_.data()});
        return !is_flagged();
    }

    const void* own() override {
        if (rounds())
            machine_.template run<ToBf16>(tiles(w_.size()), {w_.size(), w_.data(), own_copies_.data()});
        else
            machine_.fetch(own_.data(), w_.data(), w_.size());
        machine_.hand_over();
        return rounds() ? static_cast<const void*>(own_copies_.data()) : own_.data();
    }

    void* all() override { return rounds() ? static_cast<void*>(all_copies_.data()) : all_.data(); }

    void show() override {
        if (!ownership_->sharded()) {
            if (rounds())
                from_copies(own_copies_, parameters_);
            else
                machine_.fetch(parameters_.data(), w_.data(), size_);
            return;
        }
        if (rounds())
            from_copies(all_copies_, all_);
        const float* packed = all_.data();
        for_pieces([&](const Piece& piece) {
            machine_.fetch(parameters_.data() + piece.begin, packed, piece.size());
            packed += piece.size();
        });
    }

    std::span<const float> parameters() override {
        download(parameters_, mirror_);
        return mirror_;
    }

    void fetch(State& state) override {
        download(w_, state.w);
        download(m_, state.m);
        download(v_, state.v);
    }

  private:
    template <class T>
    using Vector = typename Machine::template Vector<T>;
    using Floats = Vector<float>;
    using Halves = Vector<std::uint16_t>;

    [[nodiscard]] static Index tiles(Index size) { return (size + tile - 1) / tile; }
    [[nodiscard]] bool rounds() const { return problem_->copies == Copies::bf16; }

    /// The pieces of all ranks, or of this one where nothing is sharded: as they are packed.
    template <class Work>
    void for_pieces(const Work& work) const {
        for (int rank = 0; rank < (ownership_->sharded() ? problem_->ranks : 1); ++rank)
            for (const Piece& piece : ownership_->pieces(rank))
                work(piece);
    }

    /// Waits for the last launch's verdict.
    [[nodiscard]] bool is_flagged() {
        std::uint32_t found = 0;
        machine_.download(&found, flag_.data(), 1);
        return found != 0;
    }

    void add_to(const Floats& from, Floats& to) {
        machine_.template run<AddTo>(tiles(size_), {from.data(), size_, to.data()});
    }
    void from_copies(const Halves& from, Floats& to) {
        machine_.template run<FromBf16>(tiles(from.size()), {from.size(), from.data(), to.data()});
    }
    void download(const Floats& from, std::vector<float>& to) {
        to.resize(static_cast<std::size_t>(from.size()));
        if (!to.empty())
            machine_.download(to.data(), from.data(), from.size());
    }

    /// Of what `stretches_` lists.
    [[nodiscard]] std::vector<double> sums_of_stretches(const Floats& values) {
        const auto count = static_cast<Index>(stretches_.size());
        std::vector<double> sums(stretches_.size());
        if (count == 0)
            return sums;
        machine_.resize(places_, count);
        machine_.resize(squares_, count);
        machine_.upload(places_.data(), stretches_.data(), count);
        machine_.template run<SquareSums>(count, {values.data(), places_.data(), squares_.data()});
        machine_.download(sums.data(), squares_.data(), count);
        return sums;
    }

    void sgd(const Group& group, double rate, Index t, Index size, const Vectors& of) {
        machine_.template run<SgdStep>(
            tiles(size),
            {size, static_cast<float>(group.weight_decay), static_cast<float>(group.momentum),
             static_cast<float>(1.0 - group.dampening), static_cast<float>(rate), group.weight_decay != 0.0,
             group.momentum != 0.0, group.nesterov, t == 1, of.g, of.w, of.m});
    }

    void adam(const Group& group, double rate, Index t, Index size, const Vectors& of) {
        machine_.template run<AdamStep>(
            tiles(size), {size, adam_scalars(group, rate, t), static_cast<float>(group.weight_decay),
                          group.rule == Rule::adam && group.weight_decay != 0.0, group.rule == Rule::adamw,
                          group.epsilon_place == EpsilonPlace::corrected, of.g, of.w, of.m, of.v});
    }

    void muon(const Group& group, double rate, const std::vector<Index>& shape, const Vectors& of) {
        const Index size = shape[0] * shape[1];
        machine_.resize(x_, size);
        machine_.template run<MuonMomentum>(tiles(size), {size, static_cast<float>(group.momentum),
                                                          static_cast<float>(1.0 - group.momentum),
                                                          group.nesterov, of.g, of.m, x_.data()});
        orthogonalize(group, static_cast<std::size_t>(shape[0]), static_cast<std::size_t>(shape[1]));
        machine_.template run<MuonUpdate>(
            tiles(size),
            {size, static_cast<float>(1.0 - rate * group.weight_decay),
             static_cast<float>(rate * rate_factor(group.scale, shape[0], shape[1])), x_.data(), of.w});
    }

    void keep(const Group& group, const Floats& values) {
        if (group.iteration == Iteration::bf16)
            machine_.template run<KeepInBf16>(tiles(values.size()), {values.size(), values.data()});
    }
    void scaled(double factor, const Floats& from, const Floats& to) {
        machine_.template run<Scale>(tiles(to.size()),
                                     {to.size(), static_cast<float>(factor), from.data(), to.data()});
    }

    /// Replaces x, as muon.cpp does.
    void orthogonalize(const Group& group, std::size_t rows, std::size_t columns) {
        const Index size = x_.size();
        keep(group, x_);
        stretches_.clear();
        for (Index begin = 0; begin < size; begin += tile)
            stretches_.push_back({begin, least(tile, size - begin)});
        double squares = 0.0;
        for (const double sum : sums_of_stretches(x_))
            squares += sum;
        machine_.template run<DivideBy>(tiles(size),
                                        {size, first_scale(group, std::sqrt(squares)), x_.data()});
        keep(group, x_);
        const bool tall = rows > columns;
        const std::size_t side = std::min(rows, columns);
        for (Floats* square : {&gram_, &inner_})
            machine_.resize(*square, static_cast<Index>(side * side));
        machine_.resize(next_, size);
        for (int t = 0; t < group.iterations; ++t) {
            const auto [a, b, c] = polynomial(group, t);
            products_.multiply({.rows = side,
                                .columns = side,
                                .inner = std::max(rows, columns),
                                .first_transposed = tall,
                                .second_transposed = !tall},
                               x_.data(), x_.data(), gram_.data());
            keep(group, gram_);
            scaled(b, gram_, inner_);
            products_.multiply({.rows = side,
                                .columns = side,
                                .inner = side,
                                .factor = static_cast<float>(c),
                                .keep = true},
                               gram_.data(), gram_.data(), inner_.data());
            keep(group, inner_);
            scaled(a, x_, next_);
            products_.multiply({.rows = rows, .columns = columns, .inner = side, .keep = true},
                               tall ? x_.data() : inner_.data(), tall ? inner_.data() : x_.data(),
                               next_.data());
            keep(group, next_);
            x_.swap(next_);
        }
    }

    Machine machine_;
    Products products_;
    const Problem* problem_ = nullptr;
    const Ownership* ownership_ = nullptr;
    int rank_ = 0;
    Index size_ = 0;
    std::vector<std::size_t> groups_; ///< of each tensor
    Floats w_, m_, v_;                ///< what this rank owns
    std::vector<Floats> sums_;        ///< of micro-batches, as in host_backend.cpp
    Floats mean_, parameters_;
    Floats sent_, parts_, own_, all_;
    Halves own_copies_, all_copies_;
    Floats x_, next_, gram_, inner_; ///< of the matrix that is orthogonalized
    Vector<std::uint32_t> flag_;
    Vector<int> merges_;
    Vector<Stretch> places_;
    Vector<double> squares_;
    // The host's side of uploads, which outlives them.
    std::vector<int> pairs_;
    std::vector<Stretch> stretches_;
    std::vector<float> mirror_;
};

} // namespace truestep::gpu::dense
