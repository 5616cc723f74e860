"""What the backbones share. Each block is written once; a method's file says what is its own."""
