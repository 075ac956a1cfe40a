// Finds the nearest codewords of MAPL's values, learns codebooks, and packs indices into bits.
#include <truestep/distributed/mapl/codec.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include <truestep/distributed/mapl/products.hpp>
#include <truestep/problem/tunable.hpp>

namespace truestep::distributed::mapl {

namespace {

/// The number of tokens whose scores are in the cache when they are examined.
constexpr std::size_t tokens_at_once = problem::tunable<std::size_t>("codec_tokens");

/// The distance of section 23.1: summed in ascending order, every operation rounded.
float distance(const float* v, const float* c, std::size_t width) {
    float sum = 0.0F;
    for (std::size_t i = 0; i < width; ++i) {
        const float off = v[i] - c[i];
        sum += off * off;
    }
    return sum;
}

/// Sums in any order, several at once: it only has to be near.
float square(const float* v, std::size_t width) {
    constexpr auto lanes = problem::tunable<std::size_t>("square_lanes");
    double sums[lanes] = {};
    const std::size_t whole = width - width % lanes;
    for (std::size_t i = 0; i < whole; i += lanes)
        for (std::size_t lane = 0; lane < lanes; ++lane)
            sums[lane] += static_cast<double>(v[i + lane]) * static_cast<double>(v[i + lane]);
    for (std::size_t i = whole; i < width; ++i)
        sums[i - whole] += static_cast<double>(v[i]) * static_cast<double>(v[i]);
    return static_cast<float>(std::accumulate(sums, sums + lanes, 0.0));
}

/// Every 32nd codeword is compared with the same lane's least.
constexpr std::size_t score_lanes = problem::tunable<std::size_t>("score_lanes");

/// The least |c|^2 - 2 v c of each lane.
void least_of_lanes(const float* products, const float* sizes, std::size_t words, float* least) {
    std::fill_n(least, score_lanes, std::numeric_limits<float>::infinity());
    const std::size_t whole = words - words % score_lanes;
    for (std::size_t i = 0; i < whole; i += score_lanes)
        for (std::size_t lane = 0; lane < score_lanes; ++lane) {
            const float score = products[i + lane] + sizes[i + lane];
            least[lane] = score < least[lane] ? score : least[lane];
        }
    for (std::size_t i = whole; i < words; ++i)
        least[i - whole] = std::min(least[i - whole], products[i] + sizes[i]);
}

/// The least of all lanes.
float least_of(const float* least) {
    float folded[score_lanes];
    std::copy_n(least, score_lanes, folded);
    for (std::size_t half = score_lanes / 2; half > 0; half /= 2)
        for (std::size_t lane = 0; lane < half; ++lane)
            folded[lane] = folded[lane + half] < folded[lane] ? folded[lane + half] : folded[lane];
    return folded[0];
}

/// The codewords that may be the nearest; mostly there is only one, which needs no measuring.
class Nearest {
  public:
    Nearest(const float* v, const float* words, std::size_t width) : v_(v), words_(words), width_(width) {}

    void consider(std::size_t word) {
        if (considered_++ == 0) {
            best_ = word;
            return;
        }
        if (considered_ == 2)
            least_ = measured(best_);
        const float off = measured(word);
        if (off < least_ || (off == least_ && word < best_)) {
            best_ = word;
            least_ = off;
        }
    }
    [[nodiscard]] Word best() const { return static_cast<Word>(best_); }

  private:
    [[nodiscard]] float measured(std::size_t word) const {
        return distance(v_, words_ + word * width_, width_);
    }

    const float* v_;
    const float* words_;
    std::size_t width_;
    std::size_t considered_ = 0;
    std::size_t best_ = 0;
    float least_ = 0.0F;
};

} // namespace

Codec::Codec(const Settings& settings) : settings_(settings), shape_(codebooks_of(settings)) {}

std::vector<Word> Codec::encode(std::span<const float> z, std::span<const float> codebooks,
                                std::span<float> learned) {
    const auto rank = static_cast<std::size_t>(settings_.rank);
    const auto rounds = static_cast<std::size_t>(settings_.quantization.rounds);
    const std::size_t tokens = z.size() / rank;
    std::vector<Word> indices(tokens * shape_.books);
    left_.resize(tokens * shape_.width);
    products_.resize(std::min(tokens, tokens_at_once) * shape_.words);
    sizes_.resize(shape_.words);
    for (std::size_t book = 0; book < shape_.books; ++book) {
        const std::size_t group = book / rounds;
        if (book % rounds == 0)
            for (std::size_t token = 0; token < tokens; ++token)
                std::copy_n(z.data() + token * rank + group * shape_.width, shape_.width,
                            left_.data() + token * shape_.width);
        const float* words = codebooks.data() + shape_.at(book, 0);
        choose(tokens, words, indices.data() + book, shape_.books);
        learn(tokens, indices.data() + book, shape_.books, learned.data() + shape_.at(book, 0));
        for (std::size_t token = 0; token < tokens && (book + 1) % rounds != 0; ++token) {
            const float* chosen = words + indices[token * shape_.books + book] * shape_.width;
            for (std::size_t i = 0; i < shape_.width; ++i)
                left_[token * shape_.width + i] -= chosen[i];
        }
    }
    return indices;
}

void Codec::choose(std::size_t tokens, const float* words, Word* indices, std::size_t stride) {
    for (std::size_t word = 0; word < shape_.words; ++word)
        sizes_[word] = square(words + word * shape_.width, shape_.width);
    const float farthest = *std::ranges::max_element(sizes_);
    for (std::size_t first = 0; first < tokens; first += tokens_at_once) {
        const std::size_t some = std::min(tokens_at_once, tokens - first);
        const float* v = left_.data() + first * shape_.width;
        multiply({.rows = some,
                  .columns = shape_.words,
                  .inner = shape_.width,
                  .second_transposed = true,
                  .factor = -2.0F},
                 v, words, products_.data());
        for (std::size_t token = 0; token < some; ++token)
            indices[(first + token) * stride] =
                nearest(v + token * shape_.width, words, products_.data() + token * shape_.words, farthest);
    }
}

Word Codec::nearest(const float* v, const float* words, const float* products, float farthest) const {
    Nearest found(v, words, shape_.width);
    const float reach = square(v, shape_.width) + farthest;
    if (!(reach < 0x1p120F)) { // else a product may overflow, and scores mean nothing
        for (std::size_t word = 0; word < shape_.words; ++word)
            found.consider(word);
        return found.best();
    }
    // A score is off by at most (w + 4) u (|v|^2 + |c|^2), the specification's sum by (2 w + 4) u
    // of that; u = 2^-24. Both of two compared scores may be off, and underflow adds to it.
    const float margin = (8.0F * static_cast<float>(shape_.width) + 16.0F) * 0x1p-24F * reach +
                         std::numeric_limits<float>::min();
    float least[score_lanes];
    least_of_lanes(products, sizes_.data(), shape_.words, least);
    const float limit = least_of(least) + margin;
    for (std::size_t lane = 0; lane < score_lanes; ++lane)
        if (least[lane] <= limit)
            for (std::size_t word = lane; word < shape_.words; word += score_lanes)
                if (products[word] + sizes_[word] <= limit)
                    found.consider(word);
    return found.best();
}

void Codec::learn(std::size_t tokens, const Word* indices, std::size_t stride, float* words) {
    sums_.assign(shape_.words * shape_.width, 0.0F);
    counts_.assign(shape_.words, 0U);
    for (std::size_t token = 0; token < tokens; ++token) {
        const std::size_t word = indices[token * stride];
        ++counts_[word];
        for (std::size_t i = 0; i < shape_.width; ++i)
            sums_[word * shape_.width + i] += left_[token * shape_.width + i];
    }
    const auto decay = static_cast<float>(settings_.quantization.decay);
    const auto rest = static_cast<float>(1.0 - settings_.quantization.decay);
    for (std::size_t word = 1; word < shape_.words; ++word)
        if (counts_[word] > 0)
            for (std::size_t i = word * shape_.width; i < (word + 1) * shape_.width; ++i)
                words[i] = decay * words[i] + rest * (sums_[i] / static_cast<float>(counts_[word]));
}

void Codec::decode(std::span<const Word> indices, std::span<const float> codebooks, float* z) const {
    const auto rank = static_cast<std::size_t>(settings_.rank);
    const auto rounds = static_cast<std::size_t>(settings_.quantization.rounds);
    const std::size_t tokens = indices.size() / shape_.books;
    std::fill_n(z, tokens * rank, 0.0F);
    for (std::size_t token = 0; token < tokens; ++token)
        for (std::size_t book = 0; book < shape_.books; ++book) {
            const float* word = codebooks.data() + shape_.at(book, indices[token * shape_.books + book]);
            float* to = z + token * rank + book / rounds * shape_.width;
            for (std::size_t i = 0; i < shape_.width; ++i)
                to[i] += word[i];
        }
}

void pack_indices(std::span<const Word> indices, unsigned bits, std::byte* to) {
    std::uint64_t waiting = 0;
    unsigned held = 0;
    for (const Word index : indices) {
        waiting |= static_cast<std::uint64_t>(index) << held;
        for (held += bits; held >= 8; held -= 8) {
            *to++ = static_cast<std::byte>(waiting);
            waiting >>= 8U;
        }
    }
    if (held > 0)
        *to = static_cast<std::byte>(waiting);
}

void unpack_indices(const std::byte* from, unsigned bits, std::span<Word> indices) {
    std::uint64_t waiting = 0;
    unsigned held = 0;
    for (Word& index : indices) {
        for (; held < bits; held += 8)
            waiting |= static_cast<std::uint64_t>(*from++) << held;
        index = static_cast<Word>(waiting & ((std::uint64_t{1} << bits) - 1));
        waiting >>= bits;
        held -= bits;
    }
}

void gather_codewords(const Codebooks& shape, std::span<const Word> words, std::span<const float> codebooks,
                      std::byte* to) {
    const std::size_t bytes = shape.width * sizeof(float);
    for (std::size_t book = 0; book < shape.books; ++book)
        for (const Word word : words) {
            std::memcpy(to, codebooks.data() + shape.at(book, word), bytes);
            to += bytes;
        }
}

void scatter_codewords(const Codebooks& shape, std::span<const Word> words, const std::byte* from,
                       std::span<float> codebooks) {
    const std::size_t bytes = shape.width * sizeof(float);
    for (std::size_t book = 0; book < shape.books; ++book)
        for (const Word word : words) {
            std::memcpy(codebooks.data() + shape.at(book, word), from, bytes);
            from += bytes;
        }
}

} // namespace truestep::distributed::mapl
