// The code that both plain ends share.
#pragma once

#include <bit>
#include <cstring>
#include <utility>

#include <truestep/problem/error.hpp>

#include "plain.hpp"
#include "plain_codewords.hpp"
#include "plain_numbers.hpp"
#include "plain_payload.hpp"
#include "plain_spel.hpp"

namespace truestep::properties::mapl::plain {

using distributed::Peers;
using distributed::Traffic;

/// The base of both plain ends; `Any` is the interface.
template <class Any>
class PlainSide : public Any {
  public:
    PlainSide(Wrong wrong, const Settings& settings, EndState state, Side side, Peers& peers, int peer)
        : wrong_(wrong), settings_(settings), side_(side), peers_(peers), peer_(peer), steps_(state.steps),
          batches_(state.micro_batches) {
        check(settings);
        if (wrong != off_manifold_taken)
            check_on_manifold(settings, state.a, state.steps);
        a_ = Table::of(rank(), std::move(state.a));
        before_ = a_;
        m_ = Table::of(rank(), std::move(state.m));
        if (wrong == momentum_not_kept)
            m_ = Table::zeros(m_.rows, m_.columns);
        e_ = Table::of(rank(), std::move(state.anchor));
        if (!(finite(m_.values) && finite(e_.values)) && wrong != start_not_finite_taken)
            throw Error("m or the anchor has a value that is not finite; start with finite ones");
        if (settings.anchors != Anchors::none)
            p_ = Table::of(static_cast<std::size_t>(settings.width),
                           state.rows.empty() ? anchor_rows(settings, side) : std::move(state.rows));
        if (wrong == rows_not_orthonormal)
            for (float& value : p_.values)
                value += 0.25F;
        if (!state.learned.empty())
            check_codebooks(settings, state.learned, "the state");
        codewords_ = Codewords(wrong, settings, std::move(state.codebooks), std::move(state.learned),
                               side == Side::sender, batches_);
        if (wrong == learned_not_kept) // as if only the receiver's had been
            codewords_ = Codewords(wrong, settings, codewords_.books(), {}, side == Side::sender, batches_);
        compare_settings();
        if (wrong == senders_anchor && settings.anchors == Anchors::two)
            exchange_anchors();
        forget();
    }

    Floats subspace() override { return a_.values; }
    Floats anchor() override { return e_.values; }
    Floats anchor_gradient() override { return last_.values; }
    void set_anchor(std::span<const float> table) override { e_.values.assign(table.begin(), table.end()); }
    EndState state() override {
        return {steps_,    cursor(),  a_.values,          side_ == Side::sender ? m_.values : Floats(),
                e_.values, p_.values, codewords_.books(), codewords_.learned()};
    }

  protected:
    [[nodiscard]] std::size_t rank() const { return static_cast<std::size_t>(settings_.rank); }
    [[nodiscard]] Index cursor() const {
        return wrong_ == cursor_by_steps ? steps_ * last_micro_batches_ : batches_;
    }
    [[nodiscard]] bool trained() const {
        return settings_.anchors == Anchors::shared || settings_.anchors == Anchors::two;
    }
    [[nodiscard]] bool shared() const { return settings_.anchors == Anchors::shared; }
    [[nodiscard]] std::size_t id_size() const {
        return wrong_ == ids_in_four_bytes ? 4 : id_bytes(settings_.vocabulary);
    }

    [[nodiscard]] std::size_t value_size(bool forward) const {
        return value_bytes(forward || wrong_ != payload_one_way ? settings_.payload : Payload::fp32);
    }
    [[nodiscard]] Message payload(bool forward, const Table& values) const {
        Message message;
        if (value_size(forward) == 2)
            return in_two_bytes(wrong_, values.values);
        append(message, values.values);
        return message;
    }
    [[nodiscard]] Table of_payload(bool forward, const Message& message, std::size_t count) const {
        return Table::of(rank(), value_size(forward) == 2 ? of_two_bytes(message, count)
                                                          : floats(message, 0, count));
    }

    void send(Traffic traffic, Index number, const Message& bytes) {
        const auto message = std::make_shared<Message>(bytes);
        peers_.send(traffic, peer_, static_cast<std::uint64_t>(number),
                    std::shared_ptr<const void>(message, message->data()), bytes.size());
    }
    /// Waits for the `first` bytes only; that is all of them unless a bug is planted.
    Message receive(Traffic traffic, Index number, std::size_t bytes, std::size_t first) {
        try {
            const auto incoming = peers_.receive(traffic, peer_, static_cast<std::uint64_t>(number), bytes);
            const auto* begin = reinterpret_cast<const std::uint8_t*>(incoming->wait(first));
            return {begin, begin + bytes};
        } catch (const distributed::Aborted&) {
            if (wrong_ == failure_swallowed)
                return Message(bytes);
            throw;
        }
    }
    Message receive(Traffic traffic, Index number, std::size_t bytes) {
        return receive(traffic, number, bytes, bytes);
    }
    static std::vector<float> floats(const Message& message, std::size_t from, std::size_t count) {
        std::vector<float> values(count);
        if (count > 0)
            std::memcpy(values.data(), message.data() + from * sizeof(float), count * sizeof(float));
        return values;
    }

    [[nodiscard]] Table anchored(const std::vector<Id>& ids) const {
        Table rows = Table::zeros(ids.size(), rank());
        for (std::size_t token = 0; token < ids.size(); ++token)
            for (std::size_t j = 0; j < rank(); ++j)
                rows.at(token, j) = e_.at(ids[token], j);
        return product(rows, p_);
    }

    void add_anchor_gradient(const std::vector<Id>& ids, const Table& rows, float sign) {
        if (!trained())
            return;
        const Table values = product(rows, flipped(p_));
        for (std::size_t token = 0; token < ids.size(); ++token)
            for (std::size_t j = 0; j < rank(); ++j) {
                float& entry = sum_.at(ids[token], j);
                entry = (wrong_ == anchor_gradient_overwritten ? 0.0F : entry) + sign * values.at(token, j);
            }
    }

    void forget() {
        part_ = Table::zeros(a_.rows, a_.columns);
        sum_ = trained() ? Table::zeros(e_.rows, e_.columns) : Table();
        micro_batches_ = 0;
    }
    void end(Index micro_batches) {
        last_ = sum_;
        ++steps_;
        batches_ += micro_batches;
        last_micro_batches_ = micro_batches;
        forget();
    }

    Wrong wrong_;
    Settings settings_;
    Side side_;
    Peers& peers_;
    int peer_;
    Index steps_;
    Index batches_;
    Index micro_batches_ = 0;
    Index last_micro_batches_ = 0; ///< in the step before
    Table a_;
    Table before_;
    Table m_;
    Table e_;
    Table p_;
    Table part_;
    Table sum_;
    Table last_;
    Codewords codewords_;

  private:
    /// Compares the bytes of all settings with the other side's.
    void compare_settings() {
        Message mine;
        const auto add = [&mine](const auto& value) {
            const auto* begin = reinterpret_cast<const std::uint8_t*>(&value);
            mine.insert(mine.end(), begin, begin + sizeof value);
        };
        add(settings_.width);
        const bool blind = wrong_ == rank_not_compared;
        add(blind ? Index{0} : settings_.rank);
        add(settings_.vocabulary);
        add(settings_.anchors);
        add(settings_.order);
        add(settings_.beta);
        add(settings_.direction_iterations);
        add(settings_.retraction_iterations);
        add(settings_.seed);
        add(settings_.payload);
        add(settings_.quantization);
        add(steps_);
        std::uint64_t digest = 0;
        std::vector<float> first; // column of A
        for (std::size_t i = 0; i < a_.rows; ++i)
            first.push_back(a_.at(i, 0));
        const std::vector<float>* own = blind ? &first : &a_.values;
        std::vector<const std::vector<float>*> compared{own, shared() ? &e_.values : own};
        if (settings_.anchors != Anchors::two) // whose sides have a P each
            compared.push_back(&p_.values);
        if (wrong_ != codebooks_not_compared)
            compared.push_back(&codewords_.books());
        for (const std::vector<float>* values : compared)
            for (const float value : *values)
                digest = digest * 1'000'003 + std::bit_cast<std::uint32_t>(value);
        add(digest);
        send(Traffic::agreement, 0, mine);
        const Message theirs = receive(Traffic::agreement, 0, mine.size());
        if (theirs != mine && wrong_ != settings_not_compared)
            throw Error("rank " + std::to_string(peer_) + " has other settings than rank " +
                        std::to_string(peers_.rank()) + "; start both with the same");
    }

    void exchange_anchors() {
        if (side_ == Side::sender) {
            Message message;
            append(message, e_.values);
            append(message, p_.values);
            send(Traffic::agreement, 1, message);
            return;
        }
        const std::size_t e = e_.values.size();
        const std::size_t p = p_.values.size();
        const Message message = receive(Traffic::agreement, 1, (e + p) * sizeof(float));
        e_.values = floats(message, 0, e);
        p_.values = floats(message, e, p);
    }
};

} // namespace truestep::properties::mapl::plain
