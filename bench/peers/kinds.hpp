#pragma once

#include <truestep/distributed/mask.hpp>
#include <truestep/problem/density.hpp>
#include <truestep/problem/gasloc/settings.hpp>
#include <truestep/problem/partition.hpp>

#include "peers/peer.hpp"

// The function that makes each peer; the classes are private to their files.

namespace truestep::peers {

std::unique_ptr<Peer> make_dense(const Setting&, Communicator&, std::span<const float> parameters);
/// Gradients travel as bf16. Parameters travel as fp32, or as bf16 while their owners keep fp32.
enum class ParameterFormat { fp32, bf16 };
std::unique_ptr<Peer> make_dense_bf16(const Setting&, Communicator&, std::span<const float> parameters,
                                      ParameterFormat gathered);
std::unique_ptr<Peer> make_adamw(const Setting&, Communicator&, std::span<const float> parameters);
std::unique_ptr<Peer> make_topk(const Setting&, Communicator&, std::span<const float> parameters);
std::unique_ptr<Peer> make_ok_topk(const Setting&, Communicator&, std::span<const float> parameters);
std::unique_ptr<Peer> make_unsharded(const Setting&, Communicator&, std::span<const float> parameters);
std::unique_ptr<Peer> make_scape(const Setting&, Communicator&, std::span<const float> parameters,
                                 problem::Payload payload);
std::unique_ptr<Peer> make_scape_using_up(const Setting&, Communicator&, std::span<const float> parameters);
std::unique_ptr<Peer> make_diloco(const Setting&, Communicator&, std::span<const float> parameters);
std::unique_ptr<Peer> make_gasloc(const Setting&, distributed::Peers&, std::span<const float> parameters);

/// DiLoCo's outer optimizer with its authors' values: rate and Nesterov's momentum.
constexpr float diloco_rate = 0.7F;
constexpr float diloco_momentum = 0.9F;
[[nodiscard]] problem::gasloc::Settings gasloc_settings(const Setting& setting);

/// One tensor of d parameters.
[[nodiscard]] problem::Layout one_tensor(Index size);
/// The tensors in which scape selects separately, and its delta(t).
[[nodiscard]] problem::Layout layout_of(const Setting& setting);
[[nodiscard]] problem::DensitySchedule density_of(const Setting& setting);
/// P ranges of ceil(d/P), as by_shard cuts them.
[[nodiscard]] std::vector<problem::Range> shards(Index size, int ranks);
/// P ranges that begin at whole words of a mask.
[[nodiscard]] std::vector<problem::Range> word_shards(Index size, int ranks);
/// Sizes in bytes of ranges, at `width` bytes a coordinate.
[[nodiscard]] std::vector<std::size_t> sizes_of(std::span<const problem::Range> ranges, std::size_t width);
/// Section 4.3's k for `size` coordinates.
[[nodiscard]] Index count_at(Index size, double density);

/// Convert a mask to a state's words, and back.
[[nodiscard]] std::vector<std::uint64_t> words_of(const distributed::Mask& mask);
[[nodiscard]] distributed::Mask mask_in(const State& state, const std::string& name, Index size);

} // namespace truestep::peers
