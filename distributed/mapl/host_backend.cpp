// Keeps MAPL's micro-batches under way on the CPU, and builds and reads their messages.
#include <truestep/distributed/mapl/backend.hpp>

#include <algorithm>
#include <utility>

#include <truestep/distributed/mapl/codec.hpp>
#include <truestep/distributed/mapl/spel_step.hpp>

#include "payload.hpp"

namespace truestep::distributed::mapl {

ForwardLayout forward_layout(const Settings& settings, std::size_t tokens) {
    const std::size_t ids = quantizes(settings) ? index_bytes(settings, tokens)
                                                : tokens * static_cast<std::size_t>(settings.rank) *
                                                      value_bytes(settings.payload);
    const std::size_t codewords = ids + tokens * id_bytes(settings.vocabulary);
    return {ids, codewords, codewords + codeword_bytes(settings)};
}

std::shared_ptr<const float> lent(Rows rows) {
    if (rows.there != nullptr)
        return std::move(rows.there);
    const auto here = std::make_shared<const Floats>(std::move(rows.here));
    return {here, here->data()};
}

namespace {

struct SentBatch final : BatchState {
    SentBatch(std::span<const Id> of, Floats values, bool room)
        : BatchState({of.begin(), of.end()}), q(std::move(values)), has_our_room(room) {}
    Floats q;          ///< N x D: the input of the compression
    bool has_our_room; ///< else memory that the caller gave away
};

struct ReceivedBatch final : BatchState {
    ReceivedBatch(std::vector<Id> of, std::unique_ptr<distributed::IncomingMessage> incoming)
        : BatchState(std::move(of)), message(std::move(incoming)) {}
    std::unique_ptr<distributed::IncomingMessage> message; ///< it holds Z,
    const std::byte* begin = nullptr;
    Floats widened; ///< or this does
    const float* z = nullptr;
    std::vector<Word> indices;
};

std::vector<Id> ids_of(const std::byte* from, std::size_t tokens, std::size_t each) {
    std::vector<Id> ids(tokens);
    for (Id& id : ids)
        for (std::size_t byte = 0; byte < each; ++byte)
            id |= static_cast<Id>(*from++) << (8U * byte);
    return ids;
}

class HostBackend final : public Backend {
  public:
    [[nodiscard]] bool in_host_memory() const override { return true; }
    void begin(const Settings& settings, Side /*side*/, EndState state) override {
        settings_ = settings;
        width_ = static_cast<std::size_t>(settings.width);
        rank_ = static_cast<std::size_t>(settings.rank);
        state_ = std::move(state);
        part_.assign(state_.a.size(), 0.0F);
        if (settings.anchors == Anchors::shared || settings.anchors == Anchors::two)
            anchor_sum_.assign(state_.anchor.size(), 0.0F);
        anchor_gradient_ = anchor_sum_;
        if (quantizes(settings_))
            codec_ = std::make_unique<Codec>(settings_);
    }

    CompressedBatch compress(std::span<const float> x, Floats& given, std::span<const Id> ids,
                             std::span<const Word> travelling) override {
        const bool ours = given.empty();
        auto kept = std::make_unique<SentBatch>(ids, ours ? room(x.size()) : std::move(given), ours);
        const ForwardLayout layout = forward_layout(settings_, ids.size());
        Message message = codec_ ? indices(x, *kept, layout, travelling) : values(x, *kept, layout);
        if (message.begin == nullptr) {
            if (!ours)
                given = std::move(kept->q); // to report the reason
            return {};
        }
        return {std::move(message), std::move(kept)};
    }

    Rows decompress_gradient(BatchState& kept, const std::byte* message) override {
        auto& of = static_cast<SentBatch&>(kept);
        const std::size_t tokens = of.tokens();
        Floats widened;
        const float* dz = unpacked(settings_.payload, message, tokens * rank_, widened);
        Floats dx(tokens * width_);
        mapl::decompress_gradient(matrices(), tokens, dz, dx.data());
        add_senders(matrices(), of.ids, of.q.data(), dz, dx.data(), part_.data(), anchor_sum());
        if (of.has_our_room)
            spare_.push_back(std::move(of.q));
        return {std::move(dx), nullptr};
    }

    void add_part(const std::byte* message) override {
        const auto* theirs = reinterpret_cast<const float*>(message);
        gradient_ = whole_gradient(part_, {theirs, part_.size()});
        if (settings_.anchors == Anchors::shared)
            for (std::size_t i = 0; i < anchor_sum_.size(); ++i)
                anchor_sum_[i] += theirs[part_.size() + i];
    }
    void set_gradient(const Floats& gradient) override { gradient_ = gradient; }
    bool follow(double rate) override { return spel_step(settings_, gradient_, rate, state_.a, state_.m); }
    Message subspace() override { return with_shared(state_.a); }

    std::unique_ptr<BatchState> arrive(std::unique_ptr<distributed::IncomingMessage> message,
                                       const std::byte* begin, std::size_t tokens) override {
        const ForwardLayout layout = forward_layout(settings_, tokens);
        auto kept = std::make_unique<ReceivedBatch>(
            ids_of(begin + layout.ids, tokens, id_bytes(settings_.vocabulary)), std::move(message));
        kept->begin = begin;
        if (codec_) {
            kept->indices.resize(tokens * codebooks_of(settings_).books);
            unpack_indices(begin, index_bits(settings_.quantization.codewords), kept->indices);
        }
        return kept;
    }

    std::optional<Word> wrong_index(BatchState& kept) override {
        const auto& indices = static_cast<ReceivedBatch&>(kept).indices;
        const auto words = static_cast<Word>(settings_.quantization.codewords);
        const auto found = std::ranges::find_if(indices, [words](Word index) { return index >= words; });
        return found == indices.end() ? std::nullopt : std::optional(*found);
    }

    Rows decompress(BatchState& kept, std::span<const Word> travelling) override {
        auto& of = static_cast<ReceivedBatch&>(kept);
        const std::size_t tokens = of.tokens();
        if (codec_) {
            of.widened.resize(tokens * rank_);
            codec_->decode(of.indices, state_.codebooks, of.widened.data());
            scatter_codewords(codebooks_of(settings_), travelling,
                              of.begin + forward_layout(settings_, tokens).codewords, state_.codebooks);
            of.indices = {}; // frees their memory, too
            of.z = of.widened.data();
        } else {
            of.z = unpacked(settings_.payload, of.begin, tokens * rank_, of.widened);
        }
        Floats xhat(tokens * width_);
        mapl::decompress(matrices(), of.ids, of.z, xhat.data());
        return {std::move(xhat), nullptr};
    }

    Message compress_gradient(BatchState& kept, std::span<const float> g) override {
        const std::size_t tokens = kept.tokens();
        const std::size_t bytes = tokens * rank_ * value_bytes(settings_.payload);
        OutgoingPayload dz(settings_.payload, tokens * rank_, bytes);
        mapl::compress_gradient(matrices(), tokens, g.data(), dz.values());
        return dz.pack() ? Message{dz.message(), bytes} : Message{};
    }
    void add_receivers(BatchState& kept, std::span<const float> g) override {
        mapl::add_receivers(matrices(), kept.ids, static_cast<ReceivedBatch&>(kept).z, g.data(),
                            part_.data(), anchor_sum());
    }
    Message part() override { return with_shared(part_); }
    void take_subspace(const std::byte* message) override {
        const auto* values = reinterpret_cast<const float*>(message);
        std::copy_n(values, state_.a.size(), state_.a.begin());
        if (settings_.anchors == Anchors::shared)
            std::copy_n(values + state_.a.size(), anchor_gradient_.size(), anchor_gradient_.begin());
    }

    void end_step() override {
        anchor_gradient_ = anchor_sum_;
        std::ranges::fill(part_, 0.0F);
        std::ranges::fill(anchor_sum_, 0.0F);
    }

    const Floats& held(StatePart what) override {
        switch (what) {
        case StatePart::a:
            return state_.a;
        case StatePart::m:
            return state_.m;
        case StatePart::anchor:
            return state_.anchor;
        case StatePart::rows:
            return state_.rows;
        case StatePart::codebooks:
            return state_.codebooks;
        case StatePart::learned:
            return state_.learned;
        case StatePart::gradient:
            return gradient_;
        case StatePart::anchor_gradient:
            break;
        }
        return anchor_gradient_;
    }
    void set_anchor(std::span<const float> table) override {
        state_.anchor.assign(table.begin(), table.end());
    }
    Floats to_host(Rows rows, std::size_t /*size*/) override { return std::move(rows.here); }
    bool finite(std::span<const float> values) override { return all_finite(values); }

  private:
    [[nodiscard]] SideMatrices matrices() const {
        const bool anchored = settings_.anchors != Anchors::none;
        return {width_,
                rank_,
                static_cast<std::size_t>(settings_.vocabulary),
                state_.a.data(),
                anchored ? state_.anchor.data() : nullptr,
                anchored ? state_.rows.data() : nullptr};
    }
    /// Where the step's gradient of this side's E is summed, or nullptr.
    [[nodiscard]] float* anchor_sum() { return anchor_sum_.empty() ? nullptr : anchor_sum_.data(); }

    /// Memory for N x D values, from an earlier micro-batch if possible: fresh pages cost more than
    /// writing to them.
    [[nodiscard]] Floats room(std::size_t size) {
        if (spare_.empty())
            return Floats(size);
        Floats taken = std::move(spare_.back());
        spare_.pop_back();
        taken.resize(size);
        return taken;
    }

    void put_ids(const std::vector<Id>& ids, std::byte* to) const {
        const std::size_t each = id_bytes(settings_.vocabulary);
        for (const Id id : ids)
            for (std::size_t byte = 0; byte < each; ++byte)
                *to++ = static_cast<std::byte>(id >> (8U * byte));
    }

    [[nodiscard]] Message values(std::span<const float> x, SentBatch& kept, const ForwardLayout& layout) {
        OutgoingPayload out(settings_.payload, kept.tokens() * rank_, layout.bytes);
        compress_rows(x, kept, out.values());
        if (!out.pack())
            return {};
        put_ids(kept.ids, out.bytes() + layout.ids);
        return {out.message(), layout.bytes};
    }

    [[nodiscard]] Message indices(std::span<const float> x, SentBatch& kept, const ForwardLayout& layout,
                                  std::span<const Word> travelling) {
        Floats z(kept.tokens() * rank_);
        compress_rows(x, kept, z.data());
        if (!all_finite(z))
            return {};
        Floats learned = state_.learned;
        const std::vector<Word> chosen = codec_->encode(z, state_.codebooks, learned);
        if (!all_finite(learned))
            return {};
        state_.learned = std::move(learned);
        const auto message = std::make_shared<std::vector<std::byte>>(layout.bytes);
        std::byte* begin = message->data();
        pack_indices(chosen, index_bits(settings_.quantization.codewords), begin);
        put_ids(kept.ids, begin + layout.ids);
        const Codebooks shape = codebooks_of(settings_);
        gather_codewords(shape, travelling, state_.learned, begin + layout.codewords);
        scatter_codewords(shape, travelling, begin + layout.codewords, state_.codebooks);
        return {std::shared_ptr<const void>(message, begin), layout.bytes};
    }

    void compress_rows(std::span<const float> x, SentBatch& kept, float* z) const {
        mapl::compress(matrices(), kept.ids, x.data(), kept.q.data(), z);
    }

    [[nodiscard]] Message with_shared(const Floats& values) const {
        const auto message = std::make_shared<Floats>(values);
        if (settings_.anchors == Anchors::shared)
            message->insert(message->end(), anchor_sum_.begin(), anchor_sum_.end());
        return {std::shared_ptr<const void>(message, message->data()), message->size() * sizeof(float)};
    }

    Settings settings_;
    std::size_t width_ = 0;
    std::size_t rank_ = 0;
    EndState state_;
    Floats part_;            ///< this side's part of the gradient of A
    Floats anchor_sum_;      ///< of the current step; empty if E is not trained
    Floats anchor_gradient_; ///< of the last step
    Floats gradient_;        ///< of A, of the last step: the sender's
    std::unique_ptr<Codec> codec_;
    std::vector<Floats> spare_;
};

} // namespace

std::unique_ptr<Backend> make_host_backend() {
    return std::make_unique<HostBackend>();
}

} // namespace truestep::distributed::mapl
