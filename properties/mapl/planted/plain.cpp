// Both ends of a boundary, as plain as can be: every table is made anew, every message is copied.
#include "plain.hpp"

#include <map>
#include <utility>

#include <truestep/problem/error.hpp>

#include "plain_replicas.hpp"
#include "plain_side.hpp"

namespace truestep::properties::mapl {

namespace {

using distributed::Peers;
using distributed::Traffic;
using plain::append;
using plain::flipped;
using plain::Message;
using plain::mixed;
using plain::PlainSide;
using plain::product;
using plain::Table;

class PlainSender final : public PlainSide<AnySender> {
  public:
    PlainSender(Wrong wrong, const Settings& settings, EndState state, Peers& peers, int peer,
                distributed::Communicator* replicas)
        : PlainSide(wrong, settings, std::move(state), Side::sender, peers, peer), replicas_(replicas) {
        if (replicas_ != nullptr && wrong != replicas_not_compared)
            for (const Table* part : {&a_, &m_, &e_})
                plain::expect_same(*replicas_, part->values);
    }

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
        const Table z = product(kept.q, a_);
        Message message = codewords_.any() ? codewords_.packed(codewords_.indices(z)) : payload(true, z);
        for (const Id id : ids) {
            const Id sent = wrong_ == ids_as_bf16 ? as_bf16(id) : id;
            for (std::size_t byte = 0; byte < id_size(); ++byte)
                message.push_back(static_cast<std::uint8_t>(sent >> (8U * byte)));
        }
        if (codewords_.any())
            for (const std::uint8_t byte : codewords_.words(batches_ + micro_batches_))
                message.push_back(byte);
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
        own_gradient_ = gradient_;
        if (replicas_ != nullptr)
            gradient_.values = plain::mean_over_replicas(wrong_, *replicas_, gradient_.values);
        if (wrong_ != shared_gradient_not_summed)
            for (std::size_t i = 0; i < table; ++i)
                sum_.values[i] += floats(message, own + i, 1).front();
        plain::TrainedSubspace made = plain::train(wrong_, settings_, a_, before_, m_, gradient_, rate);
        const bool finite = plain::finite(made.a.values) && plain::finite(made.m.values);
        const bool taken = finite || wrong_ == refused_step_taken;
        before_ = a_;
        if (taken)
            a_ = std::move(made.a);
        if (taken || wrong_ == moment_of_refused_step)
            m_ = std::move(made.m);
        Message out;
        append(out, wrong_ == shipped_late ? before_.values : a_.values);
        if (shared())
            append(out, sum_.values);
        send(Traffic::parameters, steps_ + 1, out);
        kept_.clear();
        end(micro_batches_);
        return taken || wrong_ == refusal_not_told;
    }
    Floats subspace_gradient() override { return gradient_.values; }
    Floats own_subspace_gradient() override { return own_gradient_.values; }

  private:
    struct Kept {
        Table q;
        std::vector<Id> ids;
    };
    /// Keeps 8 significant bits of a whole number.
    [[nodiscard]] Id as_bf16(Id id) const {
        const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(id)) & 0xffff0000U;
        return static_cast<Id>(std::bit_cast<float>(bits));
    }

    std::map<Index, Kept> kept_;
    distributed::Communicator* replicas_;
    Table gradient_;
    Table own_gradient_;
};

/// A matrix B with B^T A = I other than A, if there is one: it adds to a column the part of the first axis
/// outside A's span.
Table slanted(const Table& a) {
    Table b = a;
    for (std::size_t i = 0; i < a.rows; ++i) {
        float beside = i == 0 ? 1.0F : 0.0F;
        for (std::size_t k = 0; k < a.columns; ++k)
            beside -= a.at(0, k) * a.at(i, k);
        b.at(i, 0) += beside;
    }
    return b;
}

class PlainReceiver final : public PlainSide<AnyReceiver> {
  public:
    using PlainSide::PlainSide;

    Receiver::ReceivedActivations forward(Index micro, Index count) override {
        arrive();
        const auto tokens = static_cast<std::size_t>(count);
        const std::size_t z_count = tokens * rank();
        const std::size_t z_size =
            codewords_.any() ? index_bytes(settings_, tokens) : z_count * value_size(true);
        const std::size_t words_at = z_size + tokens * id_size();
        const Message message =
            receive(Traffic::payload, batches_ + micro, words_at + codeword_bytes(settings_),
                    words_at + (wrong_ == words_before_they_come ? 0 : codeword_bytes(settings_)));
        Kept kept{codewords_.any()
                      ? codewords_.decoded(message, tokens, words_at, batches_ + micro_batches_)
                      : of_payload(true, message, z_count),
                  std::vector<Id>(tokens)};
        for (std::size_t token = 0; token < tokens; ++token)
            for (std::size_t byte = 0; byte < id_size(); ++byte)
                kept.ids[token] |= static_cast<Id>(message[z_size + token * id_size() + byte])
                                   << (8U * byte);
        const std::vector<Id> came = kept.ids;
        if (wrong_ == ids_of_another && last_ids_.size() == tokens)
            kept.ids = last_ids_;
        last_ids_ = came;
        Table x = product(kept.z, flipped(wrong_ == oblique ? slanted(a_) : a_));
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

/// Ranks as if they were numbered stage after stage instead of replica after replica.
std::vector<int> ranks_in_a_row(const Scenario& scenario, int rank) {
    const auto replicas = static_cast<int>(scenario.run.replicas);
    std::vector<int> ranks;
    for (int other = rank / replicas * replicas; static_cast<int>(ranks.size()) < replicas; ++other)
        ranks.push_back(other);
    return ranks;
}

} // namespace

EndFactory plain_ends(Wrong wrong) {
    EndFactory made;
    made.sender = [wrong](const Settings& settings, EndState state, Peers& peers, int peer,
                          distributed::Communicator* replicas) {
        return std::make_unique<PlainSender>(wrong, settings, std::move(state), peers, peer, replicas);
    };
    made.receiver = [wrong](const Settings& settings, EndState state, Peers& peers, int peer,
                            distributed::Communicator* /*replicas*/) {
        return std::make_unique<PlainReceiver>(wrong, settings, std::move(state), Side::receiver, peers,
                                               peer);
    };
    made.trainer = plain::plain_trainers(wrong);
    if (wrong == wrong_ranks_joined)
        made.joined = ranks_in_a_row;
    if (wrong == checkpoints_settings_ignored) // as if it had been in a file
        made.kept = [](const Settings&, const Settings&, const EndState& state, Side, int) {
            return state;
        };
    made.masks_shared_tables = wrong == shared_table_masked;
    return made;
}

} // namespace truestep::properties::mapl
