#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include <truestep/distributed/mapl/backend.hpp>
#include <truestep/distributed/mapl/products.hpp>
#include <truestep/gpu/algorithms/add.hpp>

#include "algorithms/rows.hpp"
#include "block_codec.hpp"
#include "pool.hpp"
#include "side_vectors.hpp"
#include "spel.hpp"
#include "token_order.hpp"

namespace truestep::gpu::mapl {

/// The backend that launches blocks on a machine, with products on its stream. The order of
/// launches and their memory are the same for a device and for its host form. gpu/scape/backend.hpp
/// describes a machine.
template <class Machine, class Products>
class BlockBackend final : public Backend {
  public:
    [[nodiscard]] bool in_host_memory() const override { return false; }
    BlockBackend(Machine machine, Products products)
        : machine_(std::move(machine)), products_(std::move(products)) {
        machine_.resize(not_finite_, 1);
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

    void begin(const Settings& settings, Side side, EndState state) override {
        settings_ = settings;
        at_.begin(machine_, settings, state);
        if (side == Side::sender)
            spel_.begin(machine_, settings);
        if (quantizes(settings))
            codec_.begin(machine_, settings, state);
        machine_.finish(); // the state goes
    }

    CompressedBatch compress(std::span<const float> x, Floats& /*given*/, std::span<const Id> ids,
                             std::span<const Word> travelling) override {
        auto kept = std::make_unique<Batch>(std::vector<Id>(ids.begin(), ids.end()));
        const std::size_t tokens = ids.size();
        kept->q = floats_.take(machine_, x.size());
        machine_.upload(kept->q->data(), x.data(), kept->q->size());
        kept->device_ids = words_.take(machine_, tokens);
        machine_.upload(kept->device_ids->data(), ids.data(), kept->device_ids->size());
        add_anchor(-1.0F, *kept, kept->q->data());
        const ForwardLayout layout = forward_layout(settings_, tokens);
        const SharedBytes message = room_for_message(layout.bytes);
        machine_.fill(not_finite_, 0);
        if (quantizes(settings_))
            encode(*kept, message->data());
        else
            put_values(kept->q->data(), tokens, message->data());
        const auto each = static_cast<Index>(id_bytes(settings_.vocabulary));
        machine_.template run<boundary::PackIds>(
            boundary::tiles_of(count(tokens) * each),
            {count(tokens), each, kept->device_ids->data(), message->data() + layout.ids});
        if (!all_finite_so_far())
            return {};
        if (quantizes(settings_)) {
            codec_.learned();
            codec_.gather(machine_, travelling, message->data() + layout.codewords);
            codec_.scatter(machine_, travelling, message->data() + layout.codewords);
        }
        return {sent(message, layout.bytes), std::move(kept)};
    }

    Rows decompress_gradient(BatchState& kept, const std::byte* message) override {
        const auto& of = static_cast<Batch&>(kept);
        const std::size_t tokens = of.tokens();
        const SharedFloats room = room_for_values(tokens);
        const float* const dz = values_of(message, tokens, room);
        const SharedFloats dx = floats_.take(machine_, tokens * width());
        products_.multiply({.rows = tokens, .columns = width(), .inner = rank(), .second_transposed = true},
                           dz, at_.a.data(), dx->data());
        add_to_anchor(-1.0F, of, dx->data());
        add_to_part(tokens, of.q->data(), dz);
        return {{}, {dx, dx->data()}};
    }

    void add_part(const std::byte* message) override {
        const auto* const theirs = reinterpret_cast<const float*>(message);
        machine_.resize(at_.gradient, at_.a.size());
        machine_.fetch(at_.gradient.data(), theirs, at_.a.size());
        machine_.template run<gpu::AddTo>(boundary::tiles_of(at_.a.size()),
                                          {at_.part.data(), at_.a.size(), at_.gradient.data()});
        if (settings_.anchors == Anchors::shared)
            machine_.template run<gpu::AddTo>(
                boundary::tiles_of(at_.anchor_sum.size()),
                {theirs + at_.a.size(), at_.anchor_sum.size(), at_.anchor_sum.data()});
    }
    void set_gradient(const Floats& gradient) override { at_.set(machine_, at_.gradient, gradient); }

    bool follow(double rate) override {
        machine_.fill(not_finite_, 0);
        spel_.step(machine_, products_, at_.gradient, at_.a, at_.m, rate, not_finite_.data());
        if (!all_finite_so_far())
            return false;
        at_.m.swap(spel_.moment());
        at_.a.swap(spel_.x());
        return true;
    }
    Message subspace() override { return with_shared(at_.a); }

    std::unique_ptr<BatchState> arrive(std::unique_ptr<distributed::IncomingMessage> message,
                                       const std::byte* begin, std::size_t tokens) override {
        const ForwardLayout layout = forward_layout(settings_, tokens);
        const auto* const bytes = reinterpret_cast<const std::uint8_t*>(begin);
        const SharedWords device_ids = words_.take(machine_, tokens);
        machine_.template run<boundary::UnpackIds>(boundary::tiles_of(count(tokens)),
                                                   {count(tokens),
                                                    static_cast<Index>(id_bytes(settings_.vocabulary)),
                                                    bytes + layout.ids, device_ids->data()});
        SharedWords indices;
        if (quantizes(settings_)) {
            indices = words_.take(machine_, codec_.books_of_tokens(tokens));
            codec_.unpack(machine_, count(tokens), bytes, indices->data());
        }
        std::vector<Id> ids(tokens);
        machine_.download(ids.data(), device_ids->data(), count(tokens));
        auto kept = std::make_unique<Batch>(std::move(ids));
        kept->message = std::move(message);
        kept->begin = begin;
        kept->device_ids = device_ids;
        kept->indices = indices;
        return kept;
    }

    std::optional<Word> wrong_index(BatchState& kept) override {
        return codec_.wrong_index(machine_, count(kept.tokens()),
                                  static_cast<Batch&>(kept).indices->data());
    }

    Rows decompress(BatchState& kept, std::span<const Word> travelling) override {
        auto& of = static_cast<Batch&>(kept);
        const std::size_t tokens = of.tokens();
        if (quantizes(settings_)) {
            of.room = floats_.take(machine_, tokens * rank());
            codec_.decode(machine_, count(tokens), of.indices->data(), of.room->data());
            codec_.scatter(machine_, travelling,
                           reinterpret_cast<const std::uint8_t*>(of.begin) +
                               forward_layout(settings_, tokens).codewords);
            of.z = of.room->data();
        } else {
            of.room = room_for_values(tokens);
            of.z = values_of(of.begin, tokens, of.room);
        }
        const SharedFloats xhat = floats_.take(machine_, tokens * width());
        products_.multiply({.rows = tokens, .columns = width(), .inner = rank(), .second_transposed = true},
                           of.z, at_.a.data(), xhat->data());
        add_anchor(1.0F, of, xhat->data());
        return {{}, {xhat, xhat->data()}};
    }

    Message compress_gradient(BatchState& kept, std::span<const float> g) override {
        const std::size_t tokens = kept.tokens();
        const std::size_t bytes = tokens * rank() * value_bytes(settings_.payload);
        g_ = tokens == 0 ? nullptr : machine_.gradient(g.data(), static_cast<Index>(g.size()));
        const SharedBytes message = room_for_message(bytes);
        machine_.fill(not_finite_, 0);
        put_values(g_, tokens, message->data());
        return all_finite_so_far() ? sent(message, bytes) : Message{};
    }
    void add_receivers(BatchState& kept, std::span<const float> /*g*/) override {
        const auto& of = static_cast<Batch&>(kept);
        add_to_anchor(1.0F, of, g_);
        add_to_part(of.tokens(), g_, of.z);
        machine_.finish(); // G is the caller's again
    }
    Message part() override { return with_shared(at_.part); }

    void take_subspace(const std::byte* message) override {
        const auto* const values = reinterpret_cast<const float*>(message);
        machine_.fetch(at_.a.data(), values, at_.a.size());
        if (settings_.anchors == Anchors::shared)
            machine_.fetch(at_.anchor_gradient.data(), values + at_.a.size(), at_.anchor_gradient.size());
    }

    void end_step() override {
        machine_.fetch(at_.anchor_gradient.data(), at_.anchor_sum.data(), at_.anchor_sum.size());
        machine_.fill(at_.part, 0);
        machine_.fill(at_.anchor_sum, 0);
        machine_.finish(); // between two steps no graph is open, and the thread may do with its streams
                           // what it likes
    }

    const Floats& held(StatePart what) override {
        Floats& mirror = mirrors_.at(static_cast<std::size_t>(what));
        const Vector<float>& from = vector_of(what);
        mirror.resize(static_cast<std::size_t>(from.size()));
        machine_.download(mirror.data(), from.data(), from.size());
        return mirror;
    }
    void set_anchor(std::span<const float> table) override {
        machine_.upload(at_.anchor.data(), table.data(), at_.anchor.size());
        machine_.finish();
    }
    Floats to_host(Rows rows, std::size_t size) override {
        Floats here(size);
        machine_.download(here.data(), rows.there.get(), count(size));
        return here;
    }
    bool finite(std::span<const float> values) override {
        if (values.empty())
            return true;
        const Index size = count(values.size());
        machine_.fill(not_finite_, 0);
        machine_.template run<boundary::Check>(
            boundary::tiles_of(size), {size, machine_.gradient(values.data(), size), not_finite_.data()});
        return all_finite_so_far();
    }

  private:
    template <class T>
    using Vector = typename Machine::template Vector<T>;
    using SharedFloats = std::shared_ptr<Vector<float>>;
    using SharedWords = std::shared_ptr<Vector<std::uint32_t>>;
    using SharedBytes = std::shared_ptr<Vector<std::uint8_t>>;

    struct Batch final : BatchState {
        using BatchState::BatchState;
        SharedWords device_ids{};
        SharedFloats q{};                                        ///< of the sender: what was compressed
        std::unique_ptr<distributed::IncomingMessage> message{}; ///< of the receiver: it holds Z,
        const std::byte* begin = nullptr;
        SharedFloats room{}; ///< or this does
        const float* z = nullptr;
        SharedWords indices{};
    };

    [[nodiscard]] std::size_t width() const { return static_cast<std::size_t>(settings_.width); }
    [[nodiscard]] std::size_t rank() const { return static_cast<std::size_t>(settings_.rank); }
    [[nodiscard]] static Index count(std::size_t size) { return static_cast<Index>(size); }

    /// Waits for all launches since the flag was cleared, and returns whether all values were
    /// finite.
    [[nodiscard]] bool all_finite_so_far() {
        std::uint32_t found = 0;
        machine_.download(&found, not_finite_.data(), 1);
        return found == 0;
    }

    /// Never null, even for an empty message.
    [[nodiscard]] SharedBytes room_for_message(std::size_t bytes) {
        return bytes_.take(machine_, std::max<std::size_t>(bytes, 1));
    }
    [[nodiscard]] static Message sent(const SharedBytes& message, std::size_t bytes) {
        return {std::shared_ptr<const void>(message, message->data()), bytes};
    }

    /// Adds E[ids] P, N x D, times `sign`, to `to`.
    void add_anchor(float sign, const Batch& of, float* to) {
        const std::size_t tokens = of.tokens();
        if (settings_.anchors == Anchors::none || tokens == 0)
            return;
        const SharedFloats gathered = floats_.take(machine_, tokens * rank());
        machine_.template run<boundary::GatherRows>(
            boundary::tiles_of(gathered->size()),
            {count(tokens), settings_.rank, of.device_ids->data(), at_.anchor.data(), gathered->data()});
        products_.multiply(
            {.rows = tokens, .columns = width(), .inner = rank(), .factor = sign, .keep = true},
            gathered->data(), at_.rows.data(), to);
    }

    /// Adds values P^T, N x r, times `sign`, to the rows of the ids in token order. The host knows
    /// the ids, and says which tokens share one.
    void add_to_anchor(float sign, const Batch& of, const float* values) {
        const std::size_t tokens = of.tokens();
        if (at_.anchor_sum.size() == 0 || tokens == 0)
            return;
        const SharedFloats rows = floats_.take(machine_, tokens * rank());
        products_.multiply({.rows = tokens,
                            .columns = rank(),
                            .inner = width(),
                            .second_transposed = true,
                            .factor = sign},
                           values, at_.rows.data(), rows->data());
        const TokenOrder order = order_of(of.ids);
        const SharedWords there = words_.take(machine_, order.values.size());
        machine_.upload(there->data(), order.values.data(), there->size());
        machine_.template run<boundary::AddRows>(
            boundary::tiles_of(count(order.groups) * settings_.rank),
            {count(order.groups), settings_.rank, there->data() + order.ids_at(),
             there->data() + order.begins_at(), there->data(), rows->data(), at_.anchor_sum.data()});
    }

    /// Adds values^T small, D x r, to this side's part of the gradient of A.
    void add_to_part(std::size_t tokens, const float* values, const float* small) {
        if (tokens > 0)
            products_.multiply({.rows = width(),
                                .columns = rank(),
                                .inner = tokens,
                                .first_transposed = true,
                                .keep = true},
                               values, small, at_.part.data());
    }

    /// Puts values A, as it travels, at the begin of a message, and sets a flag where it is not
    /// finite.
    void put_values(const float* values, std::size_t tokens, std::uint8_t* message) {
        const Product product{.rows = tokens, .columns = rank(), .inner = width()};
        const Index size = count(tokens) * settings_.rank;
        const Index blocks = boundary::tiles_of(size);
        if (settings_.payload == Payload::fp32) {
            auto* const z = reinterpret_cast<float*>(message);
            products_.multiply(product, values, at_.a.data(), z);
            machine_.template run<boundary::Check>(blocks, {size, z, not_finite_.data()});
            return;
        }
        const SharedFloats wide = room_for_values(tokens);
        products_.multiply(product, values, at_.a.data(), wide->data());
        machine_.template run<boundary::PackValues>(
            blocks, {size, wide->data(), reinterpret_cast<std::uint16_t*>(message), not_finite_.data()});
    }

    /// Puts Z, as indices, at the begin of a message.
    void encode(const Batch& of, std::uint8_t* message) {
        const std::size_t tokens = of.tokens();
        const SharedFloats z = floats_.take(machine_, tokens * rank());
        products_.multiply({.rows = tokens, .columns = rank(), .inner = width()}, of.q->data(),
                           at_.a.data(), z->data());
        machine_.template run<boundary::Check>(boundary::tiles_of(z->size()),
                                               {z->size(), z->data(), not_finite_.data()});
        const SharedWords indices = words_.take(machine_, codec_.books_of_tokens(tokens));
        codec_.encode(machine_, count(tokens), z->data(), indices->data(), not_finite_.data());
        codec_.pack(machine_, count(tokens), indices->data(), message);
    }

    /// Room for Z or dZ in fp32; null if the message itself is fp32.
    [[nodiscard]] SharedFloats room_for_values(std::size_t tokens) {
        return settings_.payload == Payload::fp32 ? nullptr : floats_.take(machine_, tokens * rank());
    }
    [[nodiscard]] const float* values_of(const std::byte* message, std::size_t tokens,
                                         const SharedFloats& room) {
        if (room == nullptr)
            return reinterpret_cast<const float*>(message);
        machine_.template run<boundary::WidenValues>(boundary::tiles_of(room->size()),
                                                     {count(tokens) * settings_.rank,
                                                      reinterpret_cast<const std::uint16_t*>(message),
                                                      room->data()});
        return room->data();
    }

    [[nodiscard]] Message with_shared(const Vector<float>& values) {
        const bool shared = settings_.anchors == Anchors::shared;
        const auto size = static_cast<std::size_t>(values.size() + (shared ? at_.anchor_sum.size() : 0));
        const SharedFloats message = floats_.take(machine_, size);
        machine_.fetch(message->data(), values.data(), values.size());
        if (shared)
            machine_.fetch(message->data() + values.size(), at_.anchor_sum.data(), at_.anchor_sum.size());
        return {std::shared_ptr<const void>(message, message->data()), size * sizeof(float)};
    }

    [[nodiscard]] const Vector<float>& vector_of(StatePart what) const {
        if (what == StatePart::codebooks)
            return codec_.codebooks();
        return what == StatePart::learned ? codec_.learned_codebooks() : at_.of(what);
    }

    Machine machine_;
    Products products_;
    Settings settings_;
    SideVectors<Machine> at_;
    const float* g_ = nullptr; ///< the last G, where the machine computes
    Vector<std::uint32_t> not_finite_;
    Spel<Machine, Products> spel_;
    BlockCodec<Machine> codec_;
    Pool<Machine, float> floats_;
    Pool<Machine, std::uint32_t> words_;
    Pool<Machine, std::uint8_t> bytes_;
    std::array<Floats, static_cast<std::size_t>(StatePart::anchor_gradient) + 1> mirrors_;
};

} // namespace truestep::gpu::mapl
