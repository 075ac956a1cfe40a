// Offers MAPL's arithmetic in two forms: by the optimized code, and by the reference.
#include "mapl_forms.hpp"

#include <algorithm>

#include <truestep/distributed/mapl/codec.hpp>
#include <truestep/distributed/mapl/spel_step.hpp>
#include <truestep/reference/mapl/boundary.hpp>
#include <truestep/reference/mapl/spel.hpp>
#include <truestep/reference/mapl/vector_quantization.hpp>

namespace truestep::abi {

namespace {

class OptimizedMapl final : public MaplForm {
  public:
    void compress(const Side& side, Ids ids, const float* x, float* q, float* z) const override {
        distributed::mapl::compress(side, ids, x, q, z);
    }
    void compress_gradient(const Side& side, std::size_t tokens, const float* g, float* dz) const override {
        distributed::mapl::compress_gradient(side, tokens, g, dz);
    }
    void round_to_bf16(std::span<float> values) const override {
        static_cast<void>(distributed::mapl::round_to_payload(problem::mapl::Payload::bf16, values));
    }
    std::vector<problem::mapl::Word> encode(const problem::mapl::Settings& settings,
                                            std::span<const float> z, std::span<const float> codebooks,
                                            std::span<float> learned) const override {
        return distributed::mapl::Codec(settings).encode(z, codebooks, learned);
    }
    void decode(const problem::mapl::Settings& settings, std::span<const problem::mapl::Word> indices,
                std::span<const float> codebooks, float* z) const override {
        distributed::mapl::Codec(settings).decode(indices, codebooks, z);
    }
    void decompress(const Side& side, Ids ids, const float* z, float* xhat) const override {
        distributed::mapl::decompress(side, ids, z, xhat);
    }
    void decompress_gradient(const Side& side, std::size_t tokens, const float* dz,
                             float* dx) const override {
        distributed::mapl::decompress_gradient(side, tokens, dz, dx);
    }
    void add_senders(const Side& side, Ids ids, const float* q, const float* dz, const float* dx,
                     float* part, float* anchor_gradient) const override {
        distributed::mapl::add_senders(side, ids, q, dz, dx, part, anchor_gradient);
    }
    void add_receivers(const Side& side, Ids ids, const float* z, const float* g, float* part,
                       float* anchor_gradient) const override {
        distributed::mapl::add_receivers(side, ids, z, g, part, anchor_gradient);
    }
    bool step(const problem::mapl::Settings& settings, std::span<const float> gradient, double rate,
              distributed::mapl::Floats& a, distributed::mapl::Floats& m) const override {
        return distributed::mapl::spel_step(settings, gradient, rate, a, m);
    }
};

using MaplMatrix = reference::mapl::Matrix<float>;
using MaplQuantizer = reference::mapl::Quantizer<float>;

MaplMatrix mapl_matrix(const float* values, std::size_t rows, std::size_t columns) {
    if (values == nullptr)
        return {};
    return Eigen::Map<const MaplMatrix>(values, static_cast<Eigen::Index>(rows),
                                        static_cast<Eigen::Index>(columns));
}

void put_mapl(const MaplMatrix& matrix, float* to) {
    std::copy_n(matrix.data(), matrix.size(), to);
}

reference::mapl::Ids mapl_ids(MaplForm::Ids ids) {
    return {ids.begin(), ids.end()};
}

class ReferenceMapl final : public MaplForm {
  public:
    void compress(const Side& side, Ids ids, const float* x, float* q, float* z) const override {
        const MaplMatrix made = of(side).less_anchor(mapl_matrix(x, ids.size(), side.width), mapl_ids(ids));
        if (q != nullptr)
            put_mapl(made, q);
        put_mapl(reference::mapl::times(made, of(side).A), z);
    }
    void compress_gradient(const Side& side, std::size_t tokens, const float* g, float* dz) const override {
        put_mapl(reference::mapl::times(mapl_matrix(g, tokens, side.width), of(side).A), dz);
    }
    void round_to_bf16(std::span<float> values) const override {
        std::ranges::transform(values, values.begin(), reference::mapl::Sent<float>::bf16);
    }
    std::vector<problem::mapl::Word> encode(const problem::mapl::Settings& settings,
                                            std::span<const float> z, std::span<const float> codebooks,
                                            std::span<float> learned) const override {
        const MaplQuantizer quantizer{settings, MaplQuantizer::books(settings, codebooks),
                                      MaplQuantizer::books(settings, learned)};
        const auto rank = static_cast<std::size_t>(settings.rank);
        const MaplMatrix Z = mapl_matrix(z.data(), z.size() / rank, rank);
        const reference::mapl::Indices indices = quantizer.encoded(Z);
        float* to = learned.data();
        for (const MaplMatrix& book : quantizer.learned(Z, indices)) {
            put_mapl(book, to);
            to += book.size();
        }
        std::vector<problem::mapl::Word> words;
        for (problem::mapl::Index place = 0; place < indices.size(); ++place)
            words.push_back(static_cast<problem::mapl::Word>(indices.data()[place]));
        return words;
    }
    void decode(const problem::mapl::Settings& settings, std::span<const problem::mapl::Word> indices,
                std::span<const float> codebooks, float* z) const override {
        const MaplQuantizer quantizer{settings, MaplQuantizer::books(settings, codebooks)};
        const auto books = static_cast<Eigen::Index>(quantizer.C.size());
        reference::mapl::Indices all(static_cast<Eigen::Index>(indices.size()) / books, books);
        std::ranges::copy(indices, all.data());
        put_mapl(quantizer.decoded(all), z);
    }
    void decompress(const Side& side, Ids ids, const float* z, float* xhat) const override {
        put_mapl(of(side).decompressed(mapl_matrix(z, ids.size(), side.rank), mapl_ids(ids)), xhat);
    }
    void decompress_gradient(const Side& side, std::size_t tokens, const float* dz,
                             float* dx) const override {
        put_mapl(reference::mapl::times(mapl_matrix(dz, tokens, side.rank),
                                        reference::mapl::transposed(of(side).A)),
                 dx);
    }
    void add_senders(const Side& side, Ids ids, const float* q, const float* dz, const float* /*dx*/,
                     float* part, float* anchor_gradient) const override {
        reference::mapl::Gradients<float> sums;
        sums.sender = mapl_matrix(part, side.width, side.rank);
        sums.dEp = mapl_matrix(anchor_gradient, side.vocabulary, side.rank);
        static_cast<void>(of(side).senders_backward(mapl_matrix(dz, ids.size(), side.rank),
                                                    mapl_matrix(q, ids.size(), side.width), mapl_ids(ids),
                                                    sums));
        put_mapl(sums.sender, part);
        put_mapl(sums.dEp, anchor_gradient);
    }
    void add_receivers(const Side& side, Ids ids, const float* z, const float* g, float* part,
                       float* anchor_gradient) const override {
        reference::mapl::Gradients<float> sums;
        sums.receiver = mapl_matrix(part, side.width, side.rank);
        sums.dEq = mapl_matrix(anchor_gradient, side.vocabulary, side.rank);
        static_cast<void>(of(side).receivers_backward(mapl_matrix(g, ids.size(), side.width),
                                                      mapl_matrix(z, ids.size(), side.rank), mapl_ids(ids),
                                                      sums));
        put_mapl(sums.receiver, part);
        put_mapl(sums.dEq, anchor_gradient);
    }
    bool step(const problem::mapl::Settings& settings, std::span<const float> gradient, double rate,
              distributed::mapl::Floats& a, distributed::mapl::Floats& m) const override {
        const auto width = static_cast<std::size_t>(settings.width);
        const auto rank = static_cast<std::size_t>(settings.rank);
        const reference::mapl::SpelStep<float> made = reference::mapl::spel(
            settings, mapl_matrix(a.data(), width, rank), mapl_matrix(m.data(), width, rank),
            mapl_matrix(gradient.data(), width, rank), rate);
        if (!made.m.allFinite() || !made.A.allFinite())
            return false;
        put_mapl(made.m, m.data());
        put_mapl(made.A, a.data());
        return true;
    }

  private:
    /// The reference knows both sides of a boundary; here it gets the requested side as either.
    static reference::mapl::Boundary<float> of(const Side& side) {
        const reference::mapl::Anchor<float> anchor{mapl_matrix(side.anchor, side.vocabulary, side.rank),
                                                    mapl_matrix(side.rows, side.rank, side.width)};
        return {mapl_matrix(side.a, side.width, side.rank), anchor, anchor};
    }
};

} // namespace

const MaplForm& optimized_mapl() {
    static const OptimizedMapl form{};
    return form;
}

const MaplForm& reference_mapl() {
    static const ReferenceMapl form{};
    return form;
}

} // namespace truestep::abi
