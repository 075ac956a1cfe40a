#pragma once

#include <span>

#include <truestep/gpu/mapl/devices.hpp>

#include "algorithms/codewords.hpp"

namespace truestep::gpu::mapl {

/// Codebooks over a machine: the order of the launches that codec.cpp has on the host.
template <class Machine>
class BlockCodec {
  public:
    template <class T>
    using Vector = typename Machine::template Vector<T>;

    void begin(Machine& machine, const Settings& settings, const EndState& state) {
        settings_ = settings;
        shape_ = codebooks_of(settings);
        bits_ = index_bits(settings.quantization.codewords);
        for (const auto& [to, from] :
             {std::pair(&codebooks_, &state.codebooks), std::pair(&learned_, &state.learned)}) {
            machine.resize(*to, static_cast<Index>(from->size()));
            machine.upload(to->data(), from->data(), to->size());
        }
        machine.resize(learning_, learned_.size());
        machine.resize(first_wrong_, 1);
    }

    /// Encodes Z as indices. The new L stays aside until learned() is called; a flag is set if it
    /// is not finite.
    void encode(Machine& machine, Index tokens, const float* z, std::uint32_t* indices,
                std::uint32_t* not_finite) {
        const Index width = word_width();
        const auto rounds = static_cast<std::size_t>(settings_.quantization.rounds);
        machine.resize(left_, tokens * width);
        for (std::size_t book = 0; book < shape_.books; ++book) {
            if (book % rounds == 0)
                machine.template run<boundary::TakeColumns>(boundary::tiles_of(left_.size()),
                                                            {tokens, width, settings_.rank,
                                                             z + static_cast<Index>(book / rounds) * width,
                                                             left_.data()});
            const boundary::Book chosen = book_of(codebooks_, book, indices);
            machine.template run<boundary::Nearest>(boundary::Nearest::blocks(tokens),
                                                    {tokens, left_.data(), chosen});
            machine.template run<boundary::Learn>(boundary::tiles_of(words() * width),
                                                  {tokens, left_.data(), book_of(learned_, book, indices),
                                                   static_cast<float>(settings_.quantization.decay),
                                                   static_cast<float>(1.0 - settings_.quantization.decay),
                                                   learning_.data() + shape_.at(book, 0), not_finite});
            if ((book + 1) % rounds != 0)
                machine.template run<boundary::SubtractWords>(boundary::tiles_of(left_.size()),
                                                              {tokens, left_.data(), chosen});
        }
    }
    void learned() { learned_.swap(learning_); }

    void pack(Machine& machine, Index tokens, const std::uint32_t* indices, std::uint8_t* message) {
        const auto bytes = static_cast<Index>(index_bytes(settings_, static_cast<std::size_t>(tokens)));
        machine.template run<boundary::PackIndices>(boundary::tiles_of(bytes),
                                                    {bytes, tokens * books(), bits_, indices, message});
    }
    void unpack(Machine& machine, Index tokens, const std::uint8_t* message, std::uint32_t* indices) {
        constexpr int far = 0x7f; // in each byte
        machine.fill(first_wrong_, far);
        machine.template run<boundary::UnpackIndices>(
            boundary::tiles_of(tokens * books()),
            {tokens * books(), bits_, words(), message, indices, first_wrong_.data()});
    }
    /// The first wrong index that the last unpack() found, if any; waits for it.
    [[nodiscard]] std::optional<Word> wrong_index(Machine& machine, Index tokens,
                                                  const std::uint32_t* indices) {
        Index at = 0;
        machine.download(&at, first_wrong_.data(), 1);
        if (at >= tokens * books())
            return std::nullopt;
        Word wrong = 0;
        machine.download(&wrong, indices + at, 1);
        return wrong;
    }

    void decode(Machine& machine, Index tokens, const std::uint32_t* indices, float* z) {
        machine.template run<boundary::SumWords>(boundary::tiles_of(tokens * settings_.rank),
                                                 {tokens, settings_.rank, word_width(),
                                                  settings_.quantization.rounds, books(), words(),
                                                  codebooks_.data(), indices, z});
    }

    /// Copies codewords of L into the message.
    void gather(Machine& machine, std::span<const Word> which, std::uint8_t* message) {
        move<boundary::GatherWords>(machine, which, learned_, message);
    }
    /// Copies codewords of the message into C.
    void scatter(Machine& machine, std::span<const Word> which, const std::uint8_t* message) {
        // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): one struct for both ways, which reads here
        move<boundary::ScatterWords>(machine, which, codebooks_, const_cast<std::uint8_t*>(message));
    }

    [[nodiscard]] std::size_t books_of_tokens(std::size_t tokens) const { return tokens * shape_.books; }
    [[nodiscard]] const Vector<float>& codebooks() const { return codebooks_; }
    [[nodiscard]] const Vector<float>& learned_codebooks() const { return learned_; }

  private:
    [[nodiscard]] Index books() const { return static_cast<Index>(shape_.books); }
    [[nodiscard]] Index words() const { return static_cast<Index>(shape_.words); }
    [[nodiscard]] Index word_width() const { return static_cast<Index>(shape_.width); }

    [[nodiscard]] boundary::Book book_of(const Vector<float>& all, std::size_t book,
                                         std::uint32_t* indices) const {
        return {words(), word_width(), all.data() + shape_.at(book, 0), indices + book, books()};
    }

    template <class Move>
    void move(Machine& machine, std::span<const Word> which, const Vector<float>& codebooks,
              std::uint8_t* message) {
        const auto some = static_cast<Index>(which.size());
        machine.resize(which_, some);
        machine.upload(which_.data(), which.data(), some);
        machine.template run<Move>(
            boundary::tiles_of(books() * some * word_width()),
            {books(), words(), word_width(), some, which_.data(), codebooks.data(), message});
    }

    Settings settings_;
    Codebooks shape_;
    Index bits_ = 0;
    Vector<float> codebooks_; ///< C
    Vector<float> learned_;   ///< L
    Vector<float> learning_;  ///< what L would be
    Vector<float> left_;      ///< of a group: what its next round gets, r / Gr x N
    Vector<std::uint32_t> which_;
    Vector<Index> first_wrong_;
};

} // namespace truestep::gpu::mapl
