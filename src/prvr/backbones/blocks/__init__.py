"""What the backbones share. Each block is written once; a method's file holds only what is specific to it."""
