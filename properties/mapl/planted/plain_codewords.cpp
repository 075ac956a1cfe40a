// Quantizes with codebooks in plain loops, learns and sends them, with known bugs.
#include "plain_codewords.hpp"

#include <cstring>
#include <utility>

namespace truestep::properties::mapl::plain {

Codewords::Codewords(Wrong wrong, const Settings& settings, Floats books, Floats learned, bool sends,
                     Index start)
    : wrong_(wrong), settings_(settings), shape_(codebooks_of(settings)), books_(std::move(books)),
      learned_(std::move(learned)), start_(start) {
    if (books_.empty() && any())
        books_ = first_codebooks(settings);
    if (sends && learned_.empty())
        learned_ = books_;
}

Word Codewords::nearest(const float* v, const Floats& of, std::size_t book) const {
    Word best = 0;
    float least = 0.0F;
    for (Word word = 0; word < shape_.words; ++word) {
        float sum = 0.0F;
        for (std::size_t i = 0; i < shape_.width; ++i) {
            const float c = of[shape_.at(book, word) + i];
            const float off = v[i] - c;
            sum += wrong_ == scores_trusted ? (c * c) - (2.0F * v[i] * c) : off * off;
        }
        if (word == 0 || sum < least || (wrong_ == ties_to_higher && sum == least)) {
            best = word;
            least = sum;
        }
    }
    return best;
}

std::vector<Word> Codewords::indices(const Table& z) {
    std::vector<Word> all(z.rows * shape_.books);
    const Floats before = learned_;
    const Floats encoded_by = wrong_ == learning_copy_encodes ? learned_ : books_;
    const auto rounds = static_cast<std::size_t>(settings_.quantization.rounds);
    Table left;
    for (std::size_t book = 0; book < shape_.books; ++book) {
        if (book % rounds == 0) {
            left = Table::zeros(z.rows, shape_.width);
            for (std::size_t token = 0; token < z.rows; ++token)
                for (std::size_t i = 0; i < shape_.width; ++i)
                    left.at(token, i) = z.at(token, book / rounds * shape_.width + i);
        }
        for (std::size_t token = 0; token < z.rows; ++token)
            all[token * shape_.books + book] =
                nearest(left.values.data() + token * shape_.width, encoded_by, book);
        learn(book, left, all);
        for (std::size_t token = 0; token < z.rows && wrong_ != residual_not_subtracted; ++token)
            for (std::size_t i = 0; i < shape_.width; ++i)
                left.at(token, i) -= encoded_by[shape_.at(book, all[token * shape_.books + book]) + i];
    }
    if (!plain::finite(learned_)) {
        learned_ = before;
        throw Error("a codeword is not finite; nothing was sent");
    }
    return all;
}

void Codewords::learn(std::size_t book, const Table& left, const std::vector<Word>& indices) {
    const auto decay = static_cast<float>(settings_.quantization.decay);
    const auto rest = static_cast<float>(1.0 - settings_.quantization.decay);
    for (Word word = wrong_ == zero_word_learned ? 0 : 1; word < shape_.words; ++word)
        for (std::size_t i = 0; i < shape_.width; ++i) {
            float sum = 0.0F;
            float count = 0.0F;
            for (std::size_t token = 0; token < left.rows; ++token)
                if (indices[token * shape_.books + book] == word) {
                    sum += left.at(token, i);
                    count += 1.0F;
                }
            float& value = learned_[shape_.at(book, word) + i];
            if (wrong_ == averaged_over_all)
                count = count > 0.0F ? static_cast<float>(left.rows) : 0.0F;
            if (count > 0.0F)
                value = decay * value + rest * (sum / count);
            else if (wrong_ == unused_words_decay)
                value = decay * value;
        }
}

Message Codewords::packed(const std::vector<Word>& indices) const {
    const unsigned bits = index_bits(settings_.quantization.codewords);
    Message message(index_bytes(settings_, indices.size() / shape_.books));
    for (std::size_t place = 0; place < indices.size(); ++place)
        for (unsigned bit = 0; bit < bits; ++bit) {
            const std::size_t at = place * bits + bit;
            if (wrong_ == packed_within_bytes && at / 8 != place * bits / 8)
                continue; // lost beyond its first byte
            if ((indices[place] >> bit & 1U) != 0)
                message[at / 8] = static_cast<std::uint8_t>(message[at / 8] | 1U << at % 8);
        }
    return message;
}

std::vector<Word> Codewords::subset(Index so_far) const {
    if (wrong_ == cursor_not_kept)
        so_far -= start_;
    if (wrong_ == one_order_for_all_turns)
        so_far %= settings_.quantization.subsets;
    return travelling(settings_, so_far);
}

Message Codewords::words(Index so_far) {
    Message message;
    for (std::size_t book = 0; book < shape_.books; ++book)
        for (const Word word : subset(so_far)) {
            const auto from = learned_.begin() + static_cast<std::ptrdiff_t>(shape_.at(book, word));
            append(message, {from, from + static_cast<std::ptrdiff_t>(shape_.width)});
        }
    put(message, 0, so_far);
    return message;
}

void Codewords::put(const Message& message, std::size_t from, Index so_far) {
    const std::size_t bytes = shape_.width * sizeof(float);
    for (std::size_t book = 0; book < shape_.books; ++book)
        for (const Word word : subset(so_far)) {
            std::memcpy(books_.data() + shape_.at(book, word), message.data() + from, bytes);
            from += bytes;
        }
}

Table Codewords::decoded(const Message& message, std::size_t tokens, std::size_t words_at, Index so_far) {
    if (wrong_ == newer_codebook_decodes)
        put(message, words_at, so_far);
    const unsigned bits = index_bits(settings_.quantization.codewords);
    const auto rounds = static_cast<std::size_t>(settings_.quantization.rounds);
    Table z = Table::zeros(tokens, static_cast<std::size_t>(settings_.rank));
    for (std::size_t place = 0; place < tokens * shape_.books; ++place) {
        std::size_t word = 0;
        for (unsigned bit = 0; bit < bits; ++bit) {
            const std::size_t at = place * bits + bit;
            word |= static_cast<std::size_t>(message[at / 8] >> at % 8 & 1U) << bit;
        }
        const std::size_t book = place % shape_.books;
        for (std::size_t i = 0; i < shape_.width; ++i)
            z.at(place / shape_.books, book / rounds * shape_.width + i) +=
                books_[shape_.at(book, word) + i];
    }
    if (wrong_ != newer_codebook_decodes)
        put(message, words_at, so_far);
    return z;
}

} // namespace truestep::properties::mapl::plain
