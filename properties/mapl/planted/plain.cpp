// Both ends of a boundary, as plain as can be: every table is made anew, every message is copied.
#include "plain.hpp"

#include <bit>
#include <cstring>
#include <map>
#include <utility>

#include <scape/problem/error.hpp>

#include "plain_numbers.hpp"
#include "plain_payload.hpp"
#include "plain_spel.hpp"

namespace scape::mapl {

namespace {

using distributed::Peers;
using distributed::Traffic;
using plain::append;
using plain::flipped;
using plain::Message;
using plain::mixed;
using plain::product;
using plain::Table;

/// What the plain ends have in common; `Any` is the interface.
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
        if (settings.anchors != Anchors::none)
            p_ = Table::of(static_cast<std::size_t>(settings.width),
                           state.rows.empty() ? anchor_rows(settings, side) : std::move(state.rows));
        if (wrong == rows_not_orthonormal)
            for (float& value : p_.values)
                value += 0.25F;
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
        return {steps_,    batches_, a_.values, side_ == Side::sender ? m_.values : Floats(),
                e_.values, p_.values};
    }

  protected:
    [[nodiscard]] std::size_t rank() const { return static_cast<std::size_t>(settings_.rank); }
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
            return plain::in_two_bytes(wrong_, values.values);
        append(message, values.values);
        return message;
    }
    [[nodiscard]] Table of_payload(bool forward, const Message& message, std::size_t count) const {
        return Table::of(rank(), value_size(forward) == 2 ? plain::of_two_bytes(message, count)
                                                          : floats(message, 0, count));
    }

    void send(Traffic traffic, Index number, const Message& bytes) {
        const auto message = std::make_shared<Message>(bytes);
        peers_.send(traffic, peer_, static_cast<std::uint64_t>(number),
                    std::shared_ptr<const void>(message, message->data()), bytes.size());
    }
    Message receive(Traffic traffic, Index number, std::size_t bytes) {
        const auto incoming = peers_.receive(traffic, peer_, static_cast<std::uint64_t>(number), bytes);
        const auto* begin = reinterpret_cast<const std::uint8_t*>(incoming->wait(bytes));
        return {begin, begin + bytes};
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
    Table a_;
    Table before_;
    Table m_;
    Table e_;
    Table p_;
    Table part_;
    Table sum_;
    Table last_;

  private:
    /// All of it, as it is: the other side compares the bytes.
    void compare_settings() {
        Message mine;
        const auto add = [&mine](const auto& value) {
            const auto* begin = reinterpret_cast<const std::uint8_t*>(&value);
            mine.insert(mine.end(), begin, begin + sizeof value);
        };
        add(settings_.width);
        add(settings_.rank);
        add(settings_.vocabulary);
        add(settings_.anchors);
        add(settings_.order);
        add(settings_.beta);
        add(settings_.direction_iterations);
        add(settings_.retraction_iterations);
        add(settings_.seed);
        add(settings_.payload);
        add(steps_);
        std::uint64_t digest = 0;
        for (const Table* table : {&a_, shared() ? &e_ : &a_})
            for (const float value : table->values)
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

class PlainSender final : public PlainSide<AnySender> {
  public:
    using PlainSide::PlainSide;

    void forward(Index micro, std::span<const float> activations, std::span<const Id> given) override {
        const std::vector<Id> ids(given.begin(), given.end());
        Kept kept{
            Table::of(static_cast<std::size_t>(settings_.width), {activations.begin(), activations.end()}),
            ids};
        for (const Id id : ids)
            if (static_cast<Index>(id) >= settings_.vocabulary) {
                if (wrong_ == refused_one_counted)
                    part_.values.front() += 1.0F;
                throw Error("an id is " + std::to_string(id) + "; the vocabulary is " +
                            std::to_string(settings_.vocabulary));
            }
        if (!plain::finite(kept.q.values))
            throw Error("an activation is not finite; nothing was sent");
        if (settings_.anchors != Anchors::none && wrong_ != anchor_not_subtracted)
            kept.q = mixed(1.0F, kept.q, -1.0F, anchored(ids));
        if (wrong_ == payload_of_activations && settings_.payload == Payload::bf16)
            for (float& value : kept.q.values)
                value = plain::rounded_to_bf16(wrong_, value);
        Message message = payload(true, product(kept.q, a_));
        for (const Id id : ids) {
            const Id sent = wrong_ == ids_as_bf16 ? as_bf16(id) : id;
            for (std::size_t byte = 0; byte < id_size(); ++byte)
                message.push_back(static_cast<std::uint8_t>(sent >> (8U * byte)));
        }
        send(Traffic::payload, batches_ + micro, message);
        kept_[wrong_ == activations_kept_by_order ? 0 : micro] = std::move(kept);
        ++micro_batches_;
    }

    Floats backward(Index micro) override {
        Kept& kept = kept_.at(wrong_ == activations_kept_by_order ? 0 : micro);
        const std::size_t count = kept.ids.size() * rank();
        const Message message = receive(Traffic::gradient, batches_ + micro, count * value_size(false));
        const Table dz = of_payload(false, message, count);
        Table dx = product(dz, flipped(a_));
        if (wrong_ == dx_without_a)
            for (std::size_t i = 0; i < dx.rows; ++i)
                for (std::size_t j = 0; j < dx.columns; ++j)
                    dx.at(i, j) = j < rank() ? dz.at(i, j) : 0.0F;
        part_ = mixed(1.0F, part_, 1.0F, product(flipped(kept.q), dz));
        add_anchor_gradient(kept.ids, dx, wrong_ == anchor_gradient_sign ? 1.0F : -1.0F);
        return dx.values;
    }

    bool end_step(double rate) override {
        const std::size_t table = shared() ? sum_.values.size() : 0;
        const std::size_t own = part_.values.size();
        const Message message = receive(Traffic::parameters, steps_ + 1, (own + table) * sizeof(float));
        const Table theirs = Table::of(rank(), floats(message, 0, own));
        gradient_ = mixed(wrong_ == receiver_part_only ? 0.0F : 1.0F, part_,
                          wrong_ == sender_part_only ? 0.0F : 1.0F, theirs);
        if (wrong_ == parts_averaged)
            gradient_ = mixed(0.5F, gradient_, 0.0F, gradient_);
        if (wrong_ == divided_by_micro_batches && micro_batches_ > 0)
            gradient_ = mixed(1.0F / static_cast<float>(micro_batches_), gradient_, 0.0F, gradient_);
        if (wrong_ != shared_gradient_not_summed)
            for (std::size_t i = 0; i < table; ++i)
                sum_.values[i] += floats(message, own + i, 1).front();
        plain::Trained made = plain::train(wrong_, settings_, a_, before_, m_, gradient_, rate);
        before_ = a_;
        a_ = std::move(made.a);
        m_ = std::move(made.m);
        Message out;
        append(out, wrong_ == shipped_late ? before_.values : a_.values);
        if (shared())
            append(out, sum_.values);
        send(Traffic::parameters, steps_ + 1, out);
        kept_.clear();
        end(micro_batches_);
        return true;
    }
    Floats subspace_gradient() override { return gradient_.values; }

  private:
    struct Kept {
        Table q;
        std::vector<Id> ids;
    };
    /// 8 bits of a whole number.
    [[nodiscard]] Id as_bf16(Id id) const {
        const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(id)) & 0xffff0000U;
        return static_cast<Id>(std::bit_cast<float>(bits));
    }

    std::map<Index, Kept> kept_;
    Table gradient_;
};

class PlainReceiver final : public PlainSide<AnyReceiver> {
  public:
    using PlainSide::PlainSide;

    Receiver::Arrived forward(Index micro, Index count) override {
        arrive();
        const auto tokens = static_cast<std::size_t>(count);
        const std::size_t z_count = tokens * rank();
        const std::size_t z_size = z_count * value_size(true);
        const Message message = receive(Traffic::payload, batches_ + micro, z_size + tokens * id_size());
        Kept kept{of_payload(true, message, z_count), std::vector<Id>(tokens)};
        for (std::size_t token = 0; token < tokens; ++token)
            for (std::size_t byte = 0; byte < id_size(); ++byte)
                kept.ids[token] |= static_cast<Id>(message[z_size + token * id_size() + byte])
                                   << (8U * byte);
        const std::vector<Id> came = kept.ids;
        if (wrong_ == ids_of_another && last_ids_.size() == tokens)
            kept.ids = last_ids_;
        last_ids_ = came;
        Table x = product(kept.z, flipped(a_));
        if (settings_.anchors != Anchors::none)
            x = mixed(1.0F, x, 1.0F, anchored(kept.ids));
        kept_[micro] = kept;
        ++micro_batches_;
        return {x.values, kept.ids};
    }

    void backward(Index micro, std::span<const float> gradient) override {
        const Kept& kept = kept_.at(micro);
        const Table g =
            Table::of(static_cast<std::size_t>(settings_.width), {gradient.begin(), gradient.end()});
        if (!plain::finite(g.values))
            throw Error("a gradient is not finite; nothing was sent");
        send(Traffic::gradient, batches_ + micro, payload(false, product(g, a_)));
        part_ = mixed(1.0F, part_, 1.0F, product(flipped(g), kept.z));
        add_anchor_gradient(kept.ids, g, 1.0F);
    }

    void end_step() override {
        Message out;
        append(out, part_.values);
        if (shared())
            append(out, sum_.values);
        send(Traffic::parameters, steps_ + 1, out);
        waits_ = true;
        const std::size_t own = a_.values.size();
        end(micro_batches_);
        awaited_ = own + (shared() ? last_.values.size() : 0);
        kept_.clear();
    }

    Floats subspace() override {
        arrive();
        return a_.values;
    }
    Floats anchor_gradient() override {
        arrive();
        return last_.values;
    }
    EndState state() override {
        arrive();
        return PlainSide::state();
    }

  private:
    struct Kept {
        Table z;
        std::vector<Id> ids;
    };
    void arrive() {
        if (!waits_)
            return;
        waits_ = false;
        const Message message = receive(Traffic::parameters, steps_, awaited_ * sizeof(float));
        const std::size_t own = a_.values.size();
        if (wrong_ != updated_on_one_side)
            a_.values = floats(message, 0, own);
        if (shared() && wrong_ != shared_gradient_not_summed)
            last_.values = floats(message, own, awaited_ - own);
    }

    std::map<Index, Kept> kept_;
    std::vector<Id> last_ids_;
    std::size_t awaited_ = 0;
    bool waits_ = false;
};

} // namespace

Subjects plain_ends(Wrong wrong) {
    return {[wrong](const Settings& settings, EndState state, Peers& peers, int peer) {
                return std::make_unique<PlainSender>(wrong, settings, std::move(state), Side::sender, peers,
                                                     peer);
            },
            [wrong](const Settings& settings, EndState state, Peers& peers, int peer) {
                return std::make_unique<PlainReceiver>(wrong, settings, std::move(state), Side::receiver,
                                                       peers, peer);
            }};
}

} // namespace scape::mapl
